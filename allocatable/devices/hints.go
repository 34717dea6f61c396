package devices

import (
	"maps"
	"slices"

	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// Hints implements topology.Provider.
func (m *Manager) Hints(r topology.Request) topology.Hints {
	wanted := map[string]int{}
	if r.Container != nil {
		maps.Insert(wanted, asks(r.Container))
	} else {
		for name, q := range resourcehelper.PodLimits(r.Pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true}) {
			if isExtended(string(name)) && q.Sign() > 0 {
				wanted[string(name)] = int(q.Value())
			}
		}
	}
	hints := topology.Hints{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, count := range wanted {
		if o := m.offers[name]; o != nil && hasPlaces(o.devices) {
			hints[name] = m.hintsLocked(r, name, count)
		}
	}
	return hints
}

// hintsLocked returns the ways to have so many devices of a resource.
func (m *Manager) hintsLocked(r topology.Request, resource string, count int) []topology.Hint {
	o := m.offers[resource]
	if had := m.hadLocked(r, resource); len(had) > 0 {
		if len(had) != count {
			return []topology.Hint{}
		}
		return hints(o.devices, m.cfg.NUMANodes, supply{free: had, count: count})
	}
	s := supply{count: count}
	for id, d := range o.devices {
		if o.current && d.Healthy && m.book.taken[resource][id] == 0 {
			s.free = append(s.free, id)
		}
	}
	if r.Container != nil {
		s.reusable = m.reusableLocked(r, resource)
	}
	if len(s.free)+len(s.reusable) < count {
		return []topology.Hint{}
	}
	return hints(o.devices, m.cfg.NUMANodes, s)
}

// hadLocked returns the devices of a resource that the container has, or the pod as a
// whole.
func (m *Manager) hadLocked(r topology.Request, resource string) []string {
	var had []string
	for container, resources := range m.book.shares[r.Pod.UID] {
		if s := resources[resource]; s != nil && (r.Container == nil || r.Container.Name == container) {
			had = append(had, s.ids()...)
		}
	}
	slices.Sort(had)
	return slices.Compact(had)
}

// supply is what a request can have: free devices, and reusable ones, which it has to
// take.
type supply struct {
	free, reusable []string
	count          int
}

// hints returns the sets of NUMA nodes from which a request can be fulfilled. Those of
// the smallest size that would do on an idle machine are preferred.
func hints(devices map[string]Device, machine topology.Nodes, s supply) []topology.Hint {
	// Many devices are in few places.
	all, free := places{}, places{}
	var bearing topology.Nodes
	for _, d := range devices {
		where := d.within(machine)
		all[where]++
		bearing |= where
	}
	for _, id := range s.free {
		free[devices[id].within(machine)]++
	}
	if bearing == 0 {
		bearing = machine
	}
	smallest := bearing.Len()
	out := []topology.Hint{}
	for set := range bearing.Subsets() {
		if all.count(set) >= s.count {
			smallest = min(smallest, set.Len())
		}
		if reused, ok := s.reused(devices, machine, set); ok && reused+free.count(set) >= s.count {
			out = append(out, topology.Hint{Nodes: set})
		}
	}
	for i := range out {
		out[i].Preferred = out[i].Nodes.Len() == smallest
	}
	return out
}

// places counts devices by the nodes to which they are close.
type places map[topology.Nodes]int

// count returns how many are close to one of the nodes.
func (p places) count(set topology.Nodes) int {
	n := 0
	for where, some := range p {
		if where&set != 0 {
			n += some
		}
	}
	return n
}

// within returns the nodes of a machine to which a device is close.
func (d Device) within(machine topology.Nodes) topology.Nodes {
	var out topology.Nodes
	for _, n := range d.Nodes {
		if machine.Has(n) {
			out |= 1 << n
		}
	}
	return out
}

// reused counts the devices that have to be taken; it is false if one of them is not
// close to the nodes.
func (s *supply) reused(devices map[string]Device, machine, set topology.Nodes) (int, bool) {
	n := 0
	for _, id := range s.reusable {
		if len(devices[id].Nodes) == 0 {
			continue
		}
		if devices[id].within(machine)&set == 0 {
			return 0, false
		}
		n++
	}
	return n, true
}
