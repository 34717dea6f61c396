package pinning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// MemoryConfig is how [Memory] works. Nodes and Class are required with [Static].
type MemoryConfig struct {
	Policy Policy
	// Nodes are those of the machine; one stands for a machine without NUMA.
	Nodes []MemoryNode
	// Class returns the quality of service of a pod.
	Class ClassOf
	// File keeps who has which memory, in the format of the kubelet's
	// memory_manager_state. Empty: nothing is kept.
	File string
	// Asked is told of each container that asked for memory of its own, with the error if
	// it got none; it must not block. nil: nobody listens.
	Asked func(err error)
	// Log gets what no error reports; nil discards.
	Log *slog.Logger
}

// Memory keeps memory of NUMA nodes for the containers of Guaranteed pods. It is a
// [topology.Provider]. All methods may be called by any goroutine.
type Memory struct {
	cfg MemoryConfig
	log *slog.Logger

	mu    sync.Mutex // guards state
	state memoryState
}

var _ topology.Provider = (*Memory)(nil)

// NewMemory returns Memory with what the file says. One that was written under another
// policy, or for a machine on which containers had more memory than there is, is an error.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	m := &Memory{cfg: cfg, log: cfg.Log}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if err := m.restore(); err != nil {
		return nil, fmt.Errorf("memory manager: %w", err)
	}
	return m, nil
}

// restore reads the file, or makes it.
func (m *Memory) restore() error {
	known, err := readMemoryState(m.cfg.File, m.cfg.Policy)
	if err != nil {
		return err
	}
	if m.cfg.Policy == None {
		m.state = memoryState{}
		return m.store()
	}
	if m.cfg.Class == nil {
		return errors.New("MemoryConfig.Class is required")
	}
	if m.state, err = newMemoryState(m.cfg.Nodes); err != nil {
		return err
	}
	if !m.reserves() {
		return errors.New("the static policy needs memory that is reserved; set reservedMemory")
	}
	if known != nil && len(known.nodes)+len(known.given) > 0 {
		if err := m.state.replay(known.given); err != nil {
			return useless(m.cfg.File, err)
		}
		if err := known.sameMachine(&m.state); err != nil {
			m.log.Warn("the memory of the machine has changed; all containers keep theirs", "err", err)
		} else {
			m.state = *known
		}
	}
	return m.store()
}

func (m *Memory) reserves() bool {
	return slices.ContainsFunc(m.cfg.Nodes, func(n MemoryNode) bool { return n.Reserved[corev1.ResourceMemory] > 0 })
}

// store writes the file.
func (m *Memory) store() error {
	if m.cfg.File == "" {
		return nil
	}
	return writeMemoryState(m.cfg.File, m.cfg.Policy, &m.state)
}

// isMemory reports whether a resource is memory or huge pages.
func isMemory(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// memoryAsk is how much of each kind of memory is asked for.
type memoryAsk map[corev1.ResourceName]uint64

func (a memoryAsk) names() []corev1.ResourceName { return slices.Sorted(maps.Keys(a)) }

// ofContainer returns what a container asks for.
func ofContainer(c *corev1.Container) memoryAsk {
	a := memoryAsk{}
	for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for name := range list {
			if n, ok := request(c, name); ok && n > 0 && isMemory(name) {
				a[name] = uint64(n)
			}
		}
	}
	return a
}

// ofPod returns what all containers of a pod ask for.
func ofPod(pod *corev1.Pod) memoryAsk {
	a := memoryAsk{}
	for _, s := range order.Of(pod) {
		for name := range ofContainer(s.Container) {
			a[name] = most(pod, func(c *corev1.Container) uint64 { return ofContainer(c)[name] })
		}
	}
	return a
}

// pins reports whether containers of a pod get memory of their own.
func (m *Memory) pins(pod *corev1.Pod) bool { return m.cfg.Policy == Static && m.cfg.Class.pins(pod) }

// Hints returns the NUMA nodes that have enough memory of each kind.
func (m *Memory) Hints(r topology.Request) topology.Hints {
	if !m.pins(r.Pod) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ask, has := m.askLocked(r)
	if len(ask) == 0 {
		return nil
	}
	if has != nil {
		return again(ask, has)
	}
	hints := m.state.hints(r.Pod, ask)
	if len(hints) == 0 {
		return nil // Allocate says why
	}
	out := topology.Hints{}
	for name := range ask {
		out[string(name)] = hints
	}
	return out
}

// askLocked returns what is asked for, and what the container, or the first one of the pod
// that has any, has of it.
func (m *Memory) askLocked(r topology.Request) (memoryAsk, []Block) {
	has := m.state.given[r.Pod.UID]
	if r.Container != nil {
		return ofContainer(r.Container), has[r.Container.Name]
	}
	for _, s := range order.Of(r.Pod) {
		if blocks := has[s.Name]; blocks != nil {
			return ofPod(r.Pod), blocks
		}
	}
	return ofPod(r.Pod), nil
}

// again returns hints at where the memory is; none if it is not what is asked for.
func again(ask memoryAsk, has []Block) topology.Hints {
	if len(has) != len(ask) {
		return nil
	}
	hints := topology.Hints{}
	for _, b := range has {
		if ask[b.Type] != b.Size {
			return nil
		}
		hints[string(b.Type)] = []topology.Hint{{Nodes: b.Nodes, Preferred: true}}
	}
	return hints
}

// Allocate keeps the memory that a container asks for.
func (m *Memory) Allocate(_ context.Context, r topology.Request, hint topology.Hint) error {
	if !m.pins(r.Pod) || r.Container == nil {
		return nil
	}
	ask := ofContainer(r.Container)
	if len(ask) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.allocateLocked(r, ask, hint)
	if m.cfg.Asked != nil {
		m.cfg.Asked(err)
	}
	return err
}

func (m *Memory) allocateLocked(r topology.Request, ask memoryAsk, hint topology.Hint) error {
	uid, name := r.Pod.UID, r.Container.Name
	if m.state.given[uid][name] != nil {
		return nil
	}
	nodes, err := m.state.choose(r.Pod, ask, hint)
	if err != nil {
		return err
	}
	before := m.state.clone()
	m.state.give(r.Pod, name, nodes, ask)
	if err := m.store(); err != nil {
		m.state = before
		return err
	}
	m.log.Info("container has memory of its own", "pod", r.Pod.Namespace+"/"+r.Pod.Name, "container", name, "nodes", nodes, "hint", hint)
	return nil
}

// Release gives back the memory of a pod.
func (m *Memory) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.given[uid] == nil {
		return
	}
	m.state.releasePod(uid)
	m.storeOrLog()
}

// Retain releases the pods that are not wanted any more.
func (m *Memory) Retain(wanted func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.state.given)
	for uid := range maps.Clone(m.state.given) {
		if !wanted(uid) {
			m.state.releasePod(uid)
		}
	}
	if len(m.state.given) != before {
		m.storeOrLog()
	}
}

// Starts says that a container of a pod starts now: those before it that have ended give
// back their memory.
func (m *Memory) Starts(pod *corev1.Pod, container string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	has := m.state.given[pod.UID]
	released := false
	for _, s := range before(pod, container) {
		if s.Ends && has[s.Name] != nil {
			m.state.release(pod.UID, s.Name)
			released = true
		}
	}
	if released {
		m.storeOrLog()
	}
}

func (m *Memory) storeOrLog() {
	if err := m.store(); err != nil {
		m.log.Error("who has which memory could not be noted; after a restart the kubelet does not know what is free", "err", err)
	}
}

// Of returns the NUMA nodes whose memory a container uses. Empty: any.
func (m *Memory) Of(uid types.UID, container string) topology.Nodes {
	var nodes topology.Nodes
	for _, b := range m.Blocks(uid, container) {
		nodes |= b.Nodes
	}
	return nodes
}

// Blocks returns the memory that a container has of its own.
func (m *Memory) Blocks(uid types.UID, container string) []Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state.given[uid][container])
}

// Allocatable returns the memory that containers can have of their own, by node and kind.
func (m *Memory) Allocatable() []Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	var blocks []Block
	for _, id := range slices.Sorted(maps.Keys(m.state.nodes)) {
		for _, name := range slices.Sorted(maps.Keys(m.state.nodes[id].tables)) {
			if size := m.state.nodes[id].tables[name].Allocatable; size > 0 {
				blocks = append(blocks, Block{Nodes: 1 << id, Type: name, Size: size})
			}
		}
	}
	return blocks
}
