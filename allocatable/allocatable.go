package allocatable

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PID is the name under which a KubeletConfiguration reserves process numbers. It
// is no resource of the API: pods cannot request it and no node reports it
// (https://kubernetes.io/docs/concepts/policy/pid-limiting).
const PID corev1.ResourceName = "pid"

// Reserved says what a node keeps from its pods. The zero value keeps nothing.
// Soft eviction thresholds and minimum reclaims have no place here: they take
// nothing from what a node offers.
type Reserved struct {
	// Kube is for the kubelet and the runtime, System for the rest of the machine:
	// the fields kubeReserved and systemReserved of a KubeletConfiguration. Both may
	// name cpu, memory, ephemeral-storage and PID.
	Kube, System corev1.ResourceList
	// SystemCPUs is how many CPUs the field reservedSystemCPUs names. If it names
	// any, they stand for the cpu of Kube and System together.
	SystemCPUs int
	// MemoryAvailable and NodefsAvailable are the hard eviction thresholds of these
	// signals; the first is kept from memory, the second from ephemeral-storage. The
	// other signals keep nothing from what a node reports.
	MemoryAvailable, NodefsAvailable Threshold
	// Unhealthy counts, for each extended resource of the capacity, the devices that
	// no pod can use.
	Unhealthy corev1.ResourceList
}

// Result is what Compute found.
type Result struct {
	// Capacity is what the node has, as Compute got it, but for PID.
	Capacity corev1.ResourceList `json:"capacity"`
	// Allocatable is what it offers: the same resources, each without its terms.
	Allocatable corev1.ResourceList `json:"allocatable"`
	// Terms are the subtractions, in the order of resources, those of PID among
	// them. Of a resource that no ShortageError names, Allocatable plus its terms
	// is Capacity.
	Terms []Term `json:"terms"`
	// Unused are the terms for resources that the capacity does not state.
	Unused []Term `json:"unused,omitempty"`
	// PIDs is what is left to pods of the process numbers; nil when the capacity
	// states none. It bounds a cgroup and is not for a node's status.
	PIDs *resource.Quantity `json:"pids,omitempty"`
}

// Compute subtracts from each resource of capacity what is reserved of it. Amounts
// are exact: CPU in millicores, all else in whole units, parts of which are
// reserved as a whole one. A percentage is of the capacity, rounded down. Huge
// pages and the number of pods are offered as they are.
//
// Nothing in the result is negative. If more is reserved of a resource than there
// is, the result offers none of it, and the error holds a *ShortageError that
// names the terms; a kubelet does not start with such a configuration. A reservation
// that cannot be, like a negative one or one of pods, is left out, and the error
// says so. The result is good for use beside an error as far as the error allows.
// It shares no memory with the arguments.
func Compute(capacity corev1.ResourceList, r Reserved) (Result, error) {
	terms, err := r.terms(capacity)
	errs := []error{err}
	result := Result{Capacity: corev1.ResourceList{}, Allocatable: corev1.ResourceList{}, Terms: []Term{}}
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		quantity := capacity[name].DeepCopy()
		if quantity.Sign() < 0 {
			errs = append(errs, invalid("capacity", name, "is %s, must not be negative; it is taken for 0", &quantity))
			quantity.Set(0)
		}
		own := slices.DeleteFunc(slices.Clone(terms), func(t Term) bool { return t.Resource != name })
		left, err := subtract(quantity, own)
		errs = append(errs, err)
		result.Terms = append(result.Terms, own...)
		if name == PID {
			result.PIDs = &left
			continue
		}
		result.Capacity[name] = quantity
		result.Allocatable[name] = left
	}
	for _, t := range terms {
		if _, ok := capacity[t.Resource]; !ok {
			result.Unused = append(result.Unused, t)
		}
	}
	return result, errors.Join(errs...)
}

// subtract returns what is left of a resource, at least nothing, and an error if
// the terms are more than it has.
func subtract(capacity resource.Quantity, terms []Term) (resource.Quantity, error) {
	left := capacity.DeepCopy()
	for _, t := range terms {
		left.Sub(t.Amount)
	}
	left.Format = capacity.Format // Sub takes that of a term once nothing is left
	if left.Sign() >= 0 {
		return left, nil
	}
	left.Set(0)
	return left, &ShortageError{Resource: terms[0].Resource, Capacity: capacity, Terms: terms}
}

// PodsLimit returns the bounds of the cgroup that holds all pods: capacity without
// what Kube and System reserve. What eviction keeps free is not taken off, so that
// the kubelet sees the shortage before the kernel does. Among the resources is PID
// when the capacity states it.
func (r Result) PodsLimit() corev1.ResourceList {
	limit := corev1.ResourceList{}
	for name, quantity := range r.Capacity {
		limit[name] = r.withoutReserved(name, quantity)
	}
	if r.PIDs != nil {
		limit[PID] = r.PIDs.DeepCopy()
	}
	return limit
}

func (r Result) withoutReserved(name corev1.ResourceName, quantity resource.Quantity) resource.Quantity {
	left := quantity.DeepCopy()
	for _, t := range r.Terms {
		if t.Resource == name && t.Cause.reserves() {
			left.Sub(t.Amount)
		}
	}
	if left.Sign() < 0 {
		left.Set(0)
	}
	return left
}
