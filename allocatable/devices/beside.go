package devices

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// step is a container in the order in which a pod starts them.
type step struct {
	*corev1.Container
	// ends is true if it has ended before the next one starts.
	ends bool
}

// steps returns the containers of a pod.
func steps(pod *corev1.Pod) []step {
	out := make([]step, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		out = append(out, step{Container: c, ends: !isSidecar(c)})
	}
	for i := range pod.Spec.Containers {
		out = append(out, step{Container: &pod.Spec.Containers[i]})
	}
	return out
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// others is what the other containers of a pod have of a resource, as seen from one.
type others struct {
	// ended have ended when the container runs, beside run at the same time, and later
	// start when it has ended.
	ended, beside, later []*share
}

// othersLocked sorts the shares of the other containers of a pod.
func (m *Manager) othersLocked(r topology.Request, resource string) others {
	var o others
	all := steps(r.Pod)
	me := slices.IndexFunc(all, func(s step) bool { return s.Name == r.Container.Name })
	if me < 0 {
		me = len(all)
	}
	for i, c := range all {
		s := m.book.get(owner{r.Pod.UID, c.Name, resource})
		switch {
		case s == nil || i == me:
		case i < me && c.ends:
			o.ended = append(o.ended, s)
		case i > me && all[me].ends:
			o.later = append(o.later, s)
		default:
			o.beside = append(o.beside, s)
		}
	}
	return o
}

// reusableLocked returns the devices of a resource that init containers before the
// container have and nobody beside it needs.
func (m *Manager) reusableLocked(r topology.Request, resource string) []string {
	o := m.othersLocked(r, resource)
	free := idsOf(o.ended)
	kept := idsOf(o.beside)
	return slices.DeleteFunc(free, func(id string) bool { return slices.Contains(kept, id) })
}

// idsOf returns the devices of several shares, in order.
func idsOf(shares []*share) []string {
	var ids []string
	for _, s := range shares {
		ids = append(ids, s.ids()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// takenLocked counts the owners of the devices of a resource whom the container has to
// leave them to: not itself, nor those that run after it and of which their plugin has not
// been told yet, as they take over what it has then.
func (m *Manager) takenLocked(r topology.Request, resource string) map[string]int {
	taken := m.book.taken[resource]
	yield := slices.DeleteFunc(m.othersLocked(r, resource).later, func(s *share) bool { return s.answer != nil })
	if own := m.book.get(owner{r.Pod.UID, r.Container.Name, resource}); own != nil {
		yield = append(yield, own)
	}
	if len(yield) == 0 {
		return taken
	}
	taken = maps.Clone(taken)
	for _, s := range yield {
		for _, id := range s.ids() {
			taken[id]--
		}
	}
	return taken
}
