package pinning

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// cpuAsk is what is decided from: what is asked for, and what there is.
type cpuAsk struct {
	need int
	// free are the CPUs that nobody has to itself and that are not reserved; reuse are
	// those of the pod's containers that have ended by then.
	free, reuse CPUSet
	// changed says that a container has another number of CPUs than it asks for.
	changed bool
}

// askLocked finds what a container, or a pod, asks for and could have.
func (c *CPUs) askLocked(r topology.Request) cpuAsk {
	a := cpuAsk{free: c.state.shared.Without(c.reserved)}
	has := c.state.exclusive[r.Pod.UID]
	if r.Container == nil {
		return c.askPod(r.Pod, has, a)
	}
	a.need = wholeCPUs(r.Container)
	if own, ok := has[r.Container.Name]; ok {
		a.free, a.changed = own, own.Len() != a.need
		return a
	}
	a.reuse = reusable(before(r.Pod, r.Container.Name), has)
	return c.cfg.narrow(a)
}

// askPod is askLocked for all containers of a pod.
func (c *CPUs) askPod(pod *corev1.Pod, has map[string]CPUSet, a cpuAsk) cpuAsk {
	a.need = int(most(pod, func(c *corev1.Container) uint64 { return uint64(wholeCPUs(c)) })) //nolint:gosec // bounded
	var all CPUSet
	for _, s := range order.Of(pod) {
		if own, ok := has[s.Name]; ok {
			a.changed = a.changed || own.Len() != wholeCPUs(s.Container)
			all = all.Union(own)
		}
	}
	if all.Len() == a.need {
		a.free = all
		return a
	}
	a.reuse = all
	return c.cfg.narrow(a)
}

// narrow leaves the CPUs of cores that are free as a whole, if no others are to be given.
func (cfg *CPUConfig) narrow(a cpuAsk) cpuAsk {
	if cfg.Options.FullCores {
		a.free = cfg.Layout.inWholeCores(a.free.Union(a.reuse)).Without(a.reuse)
	}
	return a
}

// reusable returns the CPUs of containers that have ended before the next step, without
// those that others have taken since.
func reusable(steps []order.Step, has map[string]CPUSet) CPUSet {
	var cpus CPUSet
	for _, s := range steps {
		if s.Ends {
			cpus = cpus.Union(has[s.Name])
		} else {
			cpus = cpus.Without(has[s.Name])
		}
	}
	return cpus
}

// hints returns the sets of NUMA nodes that have enough CPUs, those that are reused among
// them. Preferred are the smallest that could have enough on an idle machine.
func (cfg *CPUConfig) hints(a cpuAsk) []topology.Hint {
	l := cfg.Layout
	var size, free [topology.MaxNode + 1]int
	for id, own := range l.nodes {
		size[id], free[id] = own.Len(), own.common(a.free.Union(a.reuse))
	}
	reused := l.nodesOf(a.reuse)
	least := len(l.nodes)
	hints := []topology.Hint{}
	for n := range l.numa().Subsets() {
		total, left := 0, 0
		for id := range n.All() {
			total += size[id]
			left += free[id]
		}
		if total >= a.need {
			least = min(least, n.Len())
		}
		if n&reused == reused && left >= a.need {
			hints = append(hints, topology.Hint{Nodes: n})
		}
	}
	for i := range hints {
		n := hints[i].Nodes
		hints[i].Preferred = n.Len() == least || cfg.Options.AlignBySocket && l.fillsSockets(n, least)
	}
	return hints
}

// fillsSockets reports whether nodes are in no more sockets than so many nodes need.
func (l *Layout) fillsSockets(n topology.Nodes, nodes int) bool {
	perSocket := len(l.nodes) / len(l.sockets)
	return perSocket > 0 && len(l.socketsOf(n)) == (nodes+perSocket-1)/perSocket
}

// assign chooses the CPUs of a container: those of the hinted nodes first.
func (cfg *CPUConfig) assign(a cpuAsk, hint topology.Hint) (CPUSet, error) {
	if err := cfg.wholeCores(a); err != nil {
		return CPUSet{}, err
	}
	free := a.free.Union(a.reuse)
	var got CPUSet
	if hint.Nodes != 0 {
		near := free.Intersect(cfg.near(hint.Nodes))
		var err error
		if got, err = cfg.Layout.take(near, min(a.need, near.Len()), cfg.Options); err != nil {
			return CPUSet{}, err
		}
	}
	rest, err := cfg.Layout.take(free.Without(got), a.need-got.Len(), cfg.Options)
	if err != nil {
		return CPUSet{}, err
	}
	got = got.Union(rest)
	if cfg.Options.FullCores && !cfg.Layout.inWholeCores(got).Equal(got) { // cores differ in size
		return CPUSet{}, &topology.SMTError{Requested: a.need, PerCore: cfg.Layout.threads, Available: free.Len()}
	}
	return got, nil
}

// near returns the CPUs of the hinted nodes, or of their sockets if these count.
func (cfg *CPUConfig) near(n topology.Nodes) CPUSet {
	if !cfg.Options.AlignBySocket {
		return cfg.Layout.onNodes(n)
	}
	var s CPUSet
	for _, socket := range cfg.Layout.socketsOf(n) {
		s = s.Union(cfg.Layout.sockets[socket])
	}
	return s
}

// wholeCores refuses what cannot be given in whole cores, if that is asked for.
func (cfg *CPUConfig) wholeCores(a cpuAsk) error {
	if !cfg.Options.FullCores {
		return nil
	}
	perCore := cfg.Layout.threads
	if a.need%perCore != 0 {
		return &topology.SMTError{Requested: a.need, PerCore: perCore, Available: -1}
	}
	if have := a.free.Len() + a.reuse.Len(); a.need > have {
		return &topology.SMTError{Requested: a.need, PerCore: perCore, Available: have}
	}
	return nil
}
