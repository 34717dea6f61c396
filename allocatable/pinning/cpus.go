package pinning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// CPUConfig is how [CPUs] works. Layout and Class are required with [Static].
type CPUConfig struct {
	Policy Policy
	// Layout is that of the machine.
	Layout *Layout
	// Reserved are the CPUs that no container gets to itself. Empty: so many as Reserve
	// says, those of the first cores.
	Reserved CPUSet
	// Reserve is how many CPUs are reserved, at least one.
	Reserve int
	Options CPUOptions
	// Topology is the policy by which hints are merged.
	Topology topology.Policy
	// Class returns the quality of service of a pod.
	Class ClassOf
	// File keeps who has which CPUs, in the format of the kubelet's cpu_manager_state.
	// Empty: nothing is kept.
	File string
	// Asked is told what became of each container that asked for CPUs to itself; it must
	// not block. nil: nobody listens.
	Asked func(CPUAnswer)
	// Log gets what no error reports; nil discards.
	Log *slog.Logger
}

// CPUAnswer is what became of a container that asked for CPUs to itself.
type CPUAnswer struct {
	// CPUs are those it got; empty if Err says why it got none.
	CPUs CPUSet
	// Had says that it had them before.
	Had bool
	// OneCache says that they share a last-level cache.
	OneCache bool
	Err      error
}

// CPUs gives CPUs to the containers of Guaranteed pods that ask for whole ones. It is a
// [topology.Provider]. All methods may be called by any goroutine.
type CPUs struct {
	cfg      CPUConfig
	log      *slog.Logger
	reserved CPUSet

	mu    sync.Mutex // guards the fields below
	state cpuState
	// applied are the CPUs that running containers were last told, by their ids.
	applied map[string]CPUSet
}

var _ topology.Provider = (*CPUs)(nil)

// NewCPUs returns CPUs with what the file says. One that was written under another policy
// or for another machine is an error: whoever runs now may have CPUs that are not free.
func NewCPUs(cfg CPUConfig) (*CPUs, error) {
	c := &CPUs{cfg: cfg, log: cfg.Log, applied: map[string]CPUSet{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Policy == Static {
		if err := c.reserve(); err != nil {
			return nil, fmt.Errorf("CPU manager: %w", err)
		}
	}
	if err := c.restore(); err != nil {
		return nil, fmt.Errorf("CPU manager: %w", err)
	}
	return c, nil
}

// reserve checks the configuration and finds the reserved CPUs.
func (c *CPUs) reserve() error {
	cfg := &c.cfg
	if cfg.Layout == nil || cfg.Class == nil {
		return errors.New("CPUConfig.Layout and Class are required")
	}
	if err := cfg.Options.validate(); err != nil {
		return err
	}
	if err := cfg.Options.suit(cfg.Layout, cfg.Topology); err != nil {
		return err
	}
	c.reserved = cfg.Reserved
	if c.reserved.IsEmpty() {
		if cfg.Reserve < 1 {
			return errors.New("the static policy needs CPUs that are reserved; set cpu in kubeReserved or systemReserved, or reservedSystemCPUs")
		}
		var err error
		if c.reserved, err = cfg.Layout.take(cfg.Layout.all, cfg.Reserve, cfg.Options); err != nil {
			return fmt.Errorf("reserve CPUs: %w", err)
		}
	}
	if rest := c.reserved.Without(cfg.Layout.all); !rest.IsEmpty() {
		return fmt.Errorf("CPUs %s are reserved, but the machine has %s online", rest, cfg.Layout.all)
	}
	return nil
}

// restore reads the file, or makes it.
func (c *CPUs) restore() error {
	c.state = cpuState{exclusive: map[types.UID]map[string]CPUSet{}}
	known, err := readCPUState(c.cfg.File, c.cfg.Policy)
	if err != nil {
		return err
	}
	if known != nil {
		c.state = *known
	}
	if c.cfg.Policy == Static {
		if err := c.check(); err != nil {
			return fmt.Errorf("%s is of no use here: %w; drain the node and remove the file", c.cfg.File, err)
		}
	}
	return c.store()
}

// usable returns the CPUs that are in the shared pool while nobody has any to itself.
func (c *CPUs) usable() CPUSet {
	if c.cfg.Options.StrictReservation {
		return c.cfg.Layout.all.Without(c.reserved)
	}
	return c.cfg.Layout.all
}

// check compares the state with the machine and the configuration.
func (c *CPUs) check() error {
	st := &c.state
	if st.shared.IsEmpty() && len(st.exclusive) == 0 {
		st.shared = c.usable()
		return nil
	}
	reserved := c.reserved.Intersect(st.shared)
	if c.cfg.Options.StrictReservation && !reserved.IsEmpty() {
		return fmt.Errorf("of the strictly reserved CPUs %s are shared", reserved)
	}
	if !c.cfg.Options.StrictReservation && !reserved.Equal(c.reserved) {
		return fmt.Errorf("of the reserved CPUs %s only %s are shared", c.reserved, reserved)
	}
	all := st.shared
	for uid, containers := range st.exclusive {
		for name, cpus := range containers {
			if both := cpus.Intersect(st.shared); !both.IsEmpty() {
				return fmt.Errorf("CPUs %s of container %s of pod %s are shared", both, name, uid)
			}
			all = all.Union(cpus)
		}
	}
	if usable := c.usable(); !all.Equal(usable) {
		return fmt.Errorf("it is about CPUs %s, the machine has %s", all, usable)
	}
	return nil
}

// store writes the file.
func (c *CPUs) store() error {
	if c.cfg.File == "" {
		return nil
	}
	return writeCPUState(c.cfg.File, c.cfg.Policy, &c.state)
}

// Hints returns the NUMA nodes that have enough CPUs.
func (c *CPUs) Hints(r topology.Request) topology.Hints {
	if c.cfg.Policy == None || !c.cfg.Class.pins(r.Pod) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.askLocked(r)
	if a.need == 0 {
		return nil
	}
	hints := []topology.Hint{}
	if !a.changed {
		hints = c.cfg.hints(a)
	}
	return topology.Hints{string(corev1.ResourceCPU): hints}
}

// Allocate gives a container the whole CPUs it asks for.
func (c *CPUs) Allocate(_ context.Context, r topology.Request, hint topology.Hint) error {
	if c.cfg.Policy == None || !c.cfg.Class.pins(r.Pod) || r.Container == nil || wholeCPUs(r.Container) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := c.allocateLocked(r, hint)
	if c.cfg.Asked != nil {
		c.cfg.Asked(answer)
	}
	return answer.Err
}

func (c *CPUs) allocateLocked(r topology.Request, hint topology.Hint) CPUAnswer {
	uid, name := r.Pod.UID, r.Container.Name
	if has, ok := c.state.exclusive[uid][name]; ok {
		return CPUAnswer{CPUs: has, Had: true}
	}
	a := c.askLocked(r)
	cpus, err := c.cfg.assign(a, hint)
	if err != nil {
		return CPUAnswer{Err: err}
	}
	before := c.state.clone()
	c.state.give(uid, name, cpus)
	if err := c.store(); err != nil {
		c.state = before
		return CPUAnswer{Err: err}
	}
	oneCache := len(c.cfg.Layout.caches.with(cpus)) == 1
	c.log.Info("container has CPUs to itself", "pod", r.Pod.Namespace+"/"+r.Pod.Name, "container", name,
		"cpus", cpus, "hint", hint, "shared", c.state.shared)
	return CPUAnswer{CPUs: cpus, OneCache: oneCache}
}

// Release returns the CPUs of a pod to the shared pool.
func (c *CPUs) Release(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.exclusive[uid] == nil {
		return
	}
	c.state.release(uid)
	c.storeOrLog()
}

// Retain releases the pods that are not wanted any more.
func (c *CPUs) Retain(wanted func(types.UID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.state.exclusive)
	for uid := range maps.Clone(c.state.exclusive) {
		if !wanted(uid) {
			c.state.release(uid)
		}
	}
	if len(c.state.exclusive) != before {
		c.storeOrLog()
	}
}

func (c *CPUs) storeOrLog() {
	if err := c.store(); err != nil {
		c.log.Error("who has which CPUs could not be noted; after a restart some are missing from the shared pool", "err", err)
	}
}

// Of returns the CPUs that a container runs on, and whether it has them to itself. Empty:
// any.
func (c *CPUs) Of(uid types.UID, container string) (cpus CPUSet, exclusive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofLocked(uid, container)
}

func (c *CPUs) ofLocked(uid types.UID, container string) (CPUSet, bool) {
	if cpus, ok := c.state.exclusive[uid][container]; ok {
		return cpus, true
	}
	return c.sharedLocked(), false
}

// Exclusive returns the CPUs that a container has to itself.
func (c *CPUs) Exclusive(uid types.UID, container string) CPUSet {
	if cpus, exclusive := c.Of(uid, container); exclusive {
		return cpus
	}
	return CPUSet{}
}

// Pins reports whether any container of a pod has CPUs to itself.
func (c *CPUs) Pins(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.state.exclusive[uid]) > 0
}

// Shared returns the CPUs of all containers that have none to themselves. Empty: any. It
// is the reserved ones if nothing else is left, as a strict reservation makes possible.
func (c *CPUs) Shared() CPUSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sharedLocked()
}

func (c *CPUs) sharedLocked() CPUSet {
	if c.state.shared.IsEmpty() {
		return c.reserved
	}
	return c.state.shared
}

// Allocatable returns the CPUs that containers can get to themselves.
func (c *CPUs) Allocatable() CPUSet {
	if c.cfg.Policy == None {
		return CPUSet{}
	}
	return c.cfg.Layout.all.Without(c.reserved)
}

// CPUTotals counts CPUs.
type CPUTotals struct {
	// Shared are the CPUs that can still be given away, Exclusive those that are.
	Shared, Exclusive int
	// ByNode counts the latter by NUMA node.
	ByNode map[int]int
}

// Totals counts who has what.
func (c *CPUs) Totals() CPUTotals {
	c.mu.Lock()
	defer c.mu.Unlock()
	given := c.state.given()
	t := CPUTotals{Shared: c.state.shared.Without(c.reserved).Len(), Exclusive: given.Len(), ByNode: map[int]int{}}
	if c.cfg.Layout != nil {
		for id, own := range c.cfg.Layout.nodes {
			t.ByNode[id] = own.common(given)
		}
	}
	return t
}
