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
	// them. Allocatable plus the terms of a resource is Capacity, but where they are
	// more than that: then none of it is allocatable.
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
// Nothing in the result is negative: if the terms of a resource are more than there
// is, the result offers none of it. If what is reserved and what hard eviction keeps
// free are more alone, the error holds a *ShortageError that names these terms: a kubelet
// does not start with such a configuration. It does start where only huge pages, which
// are the machine's and no mistake of the configuration, leave too little memory; that
// is no error. A reservation that cannot be, like a negative one or one of pods, is left
// out, and the error says so. The result is good for use beside an error as far as the
// error allows. It shares no memory with the arguments.
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
		errs = append(errs, shortage(name, quantity, own))
		left := offered(quantity, own)
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

// offered returns what is left of a resource without the terms, at least nothing.
func offered(capacity resource.Quantity, terms []Term) resource.Quantity {
	left := capacity.DeepCopy()
	for _, t := range terms {
		left.Sub(t.Amount)
	}
	left.Format = capacity.Format // Sub takes that of a term once nothing is left
	if left.Sign() < 0 {
		left.Set(0)
	}
	return left
}

// shortage returns an error if the terms that a configuration sets are more than there
// is of a resource.
func shortage(name corev1.ResourceName, capacity resource.Quantity, terms []Term) error {
	set := slices.DeleteFunc(slices.Clone(terms), func(t Term) bool { return !t.Cause.configured() })
	var sum resource.Quantity
	for _, t := range set {
		sum.Add(t.Amount)
	}
	if sum.Cmp(capacity) <= 0 {
		return nil
	}
	return &ShortageError{Resource: name, Capacity: capacity, Terms: set}
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
	return offered(quantity, slices.DeleteFunc(slices.Clone(r.Terms), func(t Term) bool {
		return t.Resource != name || !t.Cause.reserves()
	}))
}
