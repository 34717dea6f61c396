package allocatable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Term is one subtraction.
type Term struct {
	Resource corev1.ResourceName `json:"resource"`
	Cause    Cause               `json:"cause"`
	// Amount is not negative, and whole in the unit of the resource: millicores of
	// CPU, bytes, pages' bytes, devices.
	Amount resource.Quantity `json:"amount"`
	// Detail says more about the cause: the signal and the threshold, the size of
	// the pages. It is empty where the cause says all.
	Detail string `json:"detail,omitempty"`
}

// String returns text like "evictionHard 2Gi (memory.available 12.5%)".
func (t Term) String() string {
	s := t.Cause.String() + " " + t.Amount.String()
	if t.Detail != "" {
		s += " (" + t.Detail + ")"
	}
	return s
}

// Cause says why something is subtracted. There is no cause of value 0.
type Cause uint8

// The causes, in the order in which terms of one resource are listed.
const (
	// KubeReserved and SystemReserved are amounts of these fields.
	KubeReserved Cause = iota + 1
	SystemReserved
	// ReservedSystemCPUs are the CPUs that this field names.
	ReservedSystemCPUs
	// EvictionHard is a hard eviction threshold.
	EvictionHard
	// HugePages are pages that the kernel took from memory in advance.
	HugePages
	// UnhealthyDevices are there, and not fit for use.
	UnhealthyDevices
)

// String returns the name of the field that is the cause, where there is one.
func (c Cause) String() string {
	switch c {
	case KubeReserved:
		return "kubeReserved"
	case SystemReserved:
		return "systemReserved"
	case ReservedSystemCPUs:
		return "reservedSystemCPUs"
	case EvictionHard:
		return "evictionHard"
	case HugePages:
		return "huge pages"
	case UnhealthyDevices:
		return "unhealthy devices"
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

// MarshalText writes a cause as String does.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// reserves says whether the cause bounds the cgroup of all pods.
func (c Cause) reserves() bool {
	return c == KubeReserved || c == SystemReserved || c == ReservedSystemCPUs
}

// configured says whether a KubeletConfiguration sets the cause, so that too much of it
// is a mistake there.
func (c Cause) configured() bool { return c.reserves() || c == EvictionHard }

// terms returns every subtraction in the order of causes, and an error about what
// cannot be subtracted.
func (r Reserved) terms(capacity corev1.ResourceList) ([]Term, error) {
	var terms []Term
	var errs []error
	add := func(more []Term, err error) {
		terms = append(terms, more...)
		errs = append(errs, err)
	}
	add(reservations(KubeReserved, r.Kube, r.SystemCPUs > 0))
	add(reservations(SystemReserved, r.System, r.SystemCPUs > 0))
	add(r.systemCPUs())
	terms = append(terms, evictionTerms(corev1.ResourceMemory, "memory.available", r.MemoryAvailable, capacity)...)
	terms = append(terms, evictionTerms(corev1.ResourceEphemeralStorage, "nodefs.available", r.NodefsAvailable, capacity)...)
	terms = append(terms, hugePages(capacity)...)
	add(unhealthy(r.Unhealthy, capacity))
	return terms, errors.Join(errs...)
}

// reservations returns the terms of one list, without cpu if CPUs are reserved by
// number.
func reservations(cause Cause, list corev1.ResourceList, cpusByNumber bool) ([]Term, error) {
	var terms []Term
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		switch {
		case !reservable(name):
			errs = append(errs, invalid(cause.String(), name, "cannot be reserved; what can is cpu, memory, ephemeral-storage and pid"))
		case amount.Sign() < 0:
			errs = append(errs, invalid(cause.String(), name, "is %s, must not be negative", &amount))
		case amount.IsZero() || name == corev1.ResourceCPU && cpusByNumber:
		default:
			terms = append(terms, Term{Resource: name, Cause: cause, Amount: whole(name, amount)})
		}
	}
	return terms, errors.Join(errs...)
}

// reservable says whether the kubelet accepts a reservation of the resource
// (https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources).
func reservable(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, PID:
		return true
	}
	return false
}

func (r Reserved) systemCPUs() ([]Term, error) {
	if r.SystemCPUs < 0 {
		return nil, invalid(ReservedSystemCPUs.String(), corev1.ResourceCPU, "is %d CPUs, must not be negative", r.SystemCPUs)
	}
	if r.SystemCPUs == 0 {
		return nil, nil
	}
	t := Term{
		Resource: corev1.ResourceCPU,
		Cause:    ReservedSystemCPUs,
		Amount:   *resource.NewQuantity(int64(r.SystemCPUs), resource.DecimalSI),
	}
	if replaced := r.replacedCPU(); replaced != "" {
		t.Detail = "instead of the cpu of " + replaced
	}
	return []Term{t}, nil
}

func (r Reserved) replacedCPU() string {
	var lists []string
	if q, ok := r.Kube[corev1.ResourceCPU]; ok && !q.IsZero() {
		lists = append(lists, KubeReserved.String())
	}
	if q, ok := r.System[corev1.ResourceCPU]; ok && !q.IsZero() {
		lists = append(lists, SystemReserved.String())
	}
	return strings.Join(lists, " and ")
}

func evictionTerms(name corev1.ResourceName, signal string, t Threshold, capacity corev1.ResourceList) []Term {
	amount := whole(name, t.Of(capacity[name]))
	if amount.IsZero() {
		return nil
	}
	return []Term{{Resource: name, Cause: EvictionHard, Amount: amount, Detail: signal + " " + t.String()}}
}

// hugePages returns what pages of each size take from memory: the kernel counts
// them in MemTotal
// (https://docs.kernel.org/admin-guide/mm/hugetlbpage.html).
func hugePages(capacity corev1.ResourceList) []Term {
	var terms []Term
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		amount := capacity[name]
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && amount.Sign() > 0 {
			terms = append(terms, Term{Resource: corev1.ResourceMemory, Cause: HugePages, Amount: whole(name, amount), Detail: string(name)})
		}
	}
	return terms
}

func unhealthy(list, capacity corev1.ResourceList) ([]Term, error) {
	var terms []Term
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		_, counted := capacity[name]
		switch {
		case !extended(name):
			errs = append(errs, invalid(UnhealthyDevices.String(), name, "is no extended resource"))
		case amount.Sign() < 0:
			errs = append(errs, invalid(UnhealthyDevices.String(), name, "is %s, must not be negative", &amount))
		case !counted && !amount.IsZero():
			errs = append(errs, invalid(UnhealthyDevices.String(), name, "is not in the capacity, which counts healthy and unhealthy devices"))
		case !amount.IsZero():
			t := Term{Resource: name, Cause: UnhealthyDevices, Amount: whole(name, amount)}
			if all := capacity[name]; t.Amount.Cmp(all) > 0 {
				errs = append(errs, invalid(UnhealthyDevices.String(), name, "is %s, more than the %s of the capacity, which counts healthy and unhealthy devices; none is offered", &amount, &all))
			}
			terms = append(terms, t)
		}
	}
	return terms, errors.Join(errs...)
}

// extended says whether the resource has a domain that is not Kubernetes' own
// (https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node).
func extended(name corev1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// whole rounds up to millicores or units.
func whole(name corev1.ResourceName, q resource.Quantity) resource.Quantity {
	q = q.DeepCopy()
	if name == corev1.ResourceCPU {
		q.RoundUp(resource.Milli)
	} else {
		q.RoundUp(0)
	}
	return q
}
