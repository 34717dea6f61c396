package devices

import (
	"maps"
	"slices"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// others is what the other containers of a pod have of a resource, as seen from one.
type others struct {
	// ended have ended when the container runs, beside run at the same time, and later
	// start when it has ended.
	ended, beside, later []*share
}

// othersLocked sorts the shares of the other containers of a pod.
func (m *Manager) othersLocked(r topology.Request, resource string) others {
	var o others
	all := order.Of(r.Pod)
	me := slices.IndexFunc(all, func(s order.Step) bool { return s.Name == r.Container.Name })
	if me < 0 {
		me = len(all)
	}
	for i, c := range all {
		s := m.book.get(owner{r.Pod.UID, c.Name, resource})
		switch {
		case s == nil || i == me:
		case i < me && c.Ends:
			o.ended = append(o.ended, s)
		case i > me && all[me].Ends:
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
