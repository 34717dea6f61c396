package topology

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config is how a [Manager] works. The zero value admits all pods on any nodes.
type Config struct {
	Machine Machine
	Policy  Policy
	Scope   Scope
	Options Options
	// Providers allocate, in this order.
	Providers []Provider
	// Decided is told about each decision, by the goroutine that asked; it must not block.
	// nil: nobody listens.
	Decided func(pod *corev1.Pod, d Decision)
}

// Decision is what was decided about a container, or a pod as a whole.
type Decision struct {
	// Container is its name; empty: the pod.
	Container string
	// Hints are those of each provider, in their order.
	Hints []Hints
	// Best are the nodes that suit them best.
	Best Hint
	// Admitted says whether the policy allows them.
	Admitted bool
}

// Manager has pods given what they ask for from nodes that suit.
type Manager struct {
	cfg Config

	mu sync.Mutex // is held while a pod is admitted
}

// New returns a Manager. A machine that the policy does not suit is an error.
func New(cfg Config) (*Manager, error) {
	if cfg.Policy == None {
		return &Manager{cfg: cfg}, nil
	}
	most := cfg.Options.MaxNodes
	if most == 0 {
		most = DefaultMaxNodes
	}
	if n := cfg.Machine.nodes.Len(); n > most {
		return nil, fmt.Errorf("topology manager policy %s: the machine has %d NUMA nodes, want at most %d; raise %s",
			cfg.Policy, n, most, OptionMaxNodes)
	}
	if cfg.Options.PreferClosest && !cfg.Machine.measured {
		return nil, fmt.Errorf("topology manager policy option %s: the machine does not tell how far its NUMA nodes are", OptionPreferClosest)
	}
	return &Manager{cfg: cfg}, nil
}

// Policy returns the policy in force.
func (m *Manager) Policy() Policy { return m.cfg.Policy }

// Admit gives each container of a pod what it asks for. On an error the pod has nothing;
// [Reason] says what its status shows. A pod that has all of it already keeps it.
func (m *Manager) Admit(ctx context.Context, pod *corev1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.admit(ctx, pod, m.allocate)
	if err != nil {
		m.releaseLocked(pod.UID)
	}
	return err
}

// Restore is Admit for a pod whose containers run. They cannot be refused any more: what
// they do not get they do without, and the error says so.
func (m *Manager) Restore(ctx context.Context, pod *corev1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	_ = m.admit(ctx, pod, func(ctx context.Context, pod *corev1.Pod, c *corev1.Container, d Decision) error {
		d.Admitted = true
		if err := m.allocate(ctx, pod, c, d); err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", c.Name, err))
		}
		return nil
	})
	return errors.Join(errs...)
}

// Release takes back what a pod has.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releaseLocked(uid)
}

func (m *Manager) releaseLocked(uid types.UID) {
	for _, p := range m.cfg.Providers {
		p.Release(uid)
	}
}

// admit decides about each container, or the pod as a whole, and hands each container to
// give with the decision.
func (m *Manager) admit(ctx context.Context, pod *corev1.Pod, give func(context.Context, *corev1.Pod, *corev1.Container, Decision) error) error {
	var whole Decision
	if m.cfg.Scope == PerPod {
		whole = m.decide(Request{Pod: pod})
	}
	for c := range containers(pod) {
		d := whole
		if m.cfg.Scope == PerContainer {
			d = m.decide(Request{Pod: pod, Container: c})
		}
		if err := give(ctx, pod, c, d); err != nil {
			return err
		}
	}
	return nil
}

// decide finds the nodes for a request.
func (m *Manager) decide(r Request) Decision {
	var d Decision
	if m.cfg.Policy == None {
		d.Admitted = true
		return d
	}
	if r.Container != nil {
		d.Container = r.Container.Name
	}
	for _, p := range m.cfg.Providers {
		d.Hints = append(d.Hints, p.Hints(r))
	}
	d.Best, d.Admitted = Merge(m.cfg.Machine, Rules{Policy: m.cfg.Policy, Options: m.cfg.Options}, d.Hints)
	if m.cfg.Decided != nil {
		m.cfg.Decided(r.Pod, d)
	}
	return d
}

// allocate gives a container what it asks for, if the decision allows it.
func (m *Manager) allocate(ctx context.Context, pod *corev1.Pod, c *corev1.Container, d Decision) error {
	if !d.Admitted {
		return &AffinityError{Container: d.Container, Hints: d.Hints, Best: d.Best}
	}
	for _, p := range m.cfg.Providers {
		if err := p.Allocate(ctx, Request{Pod: pod, Container: c}, d.Best); err != nil {
			return err
		}
	}
	return nil
}

// containers yields those that resources are allocated to, in the order in which they
// start.
func containers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}
