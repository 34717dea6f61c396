package pinning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
)

// pins reports whether containers of a pod can have anything to themselves: it is
// Guaranteed, by what its containers ask for. What is given to a pod as a whole cannot be
// divided among them.
func (of ClassOf) pins(pod *corev1.Pod) bool {
	return !resourcehelper.IsPodLevelResourcesSet(pod) && of(pod) == corev1.PodQOSGuaranteed
}

// request returns how much a container of a Guaranteed pod asks for of a resource: its
// request, which is its limit.
func request(c *corev1.Container, name corev1.ResourceName) (amount int64, ok bool) {
	q, ok := c.Resources.Requests[name]
	if !ok {
		q, ok = c.Resources.Limits[name]
	}
	return q.Value(), ok
}

// wholeCPUs returns how many CPUs a container asks for to itself; 0 if it asks for a part
// of one, or for none.
func wholeCPUs(c *corev1.Container) int {
	q, ok := c.Resources.Requests[corev1.ResourceCPU]
	if !ok {
		q = c.Resources.Limits[corev1.ResourceCPU]
	}
	const most = 1 << 16 // no machine has as many
	if n := q.Value(); n > 0 && n <= most && q.MilliValue() == n*1000 {
		return int(n)
	} else if n > most {
		return most
	}
	return 0
}

// before returns the steps before a container; none if it is not one of them, as an
// ephemeral container, beside which any may run.
func before(pod *corev1.Pod, container string) []order.Step {
	all := order.Of(pod)
	if i := slices.IndexFunc(all, func(s order.Step) bool { return s.Name == container }); i >= 0 {
		return all[:i]
	}
	return nil
}

// most returns what a pod needs at once of something that each of its containers needs an
// amount of: that of all that run beside each other, or of one that ends before with those
// that already run
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/753-sidecar-containers).
func most(pod *corev1.Pod, of func(*corev1.Container) uint64) uint64 {
	var beside, peak uint64
	for _, s := range order.Of(pod) {
		if s.Ends {
			peak = max(peak, beside+of(s.Container))
		} else {
			beside += of(s.Container)
		}
	}
	return max(peak, beside)
}
