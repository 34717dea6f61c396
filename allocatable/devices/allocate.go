package devices

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// Allocate implements topology.Provider: it keeps devices for a container, close to the
// nodes of the hint as far as possible. No plugin is asked and nothing is written; see
// Prepare. A container that has its devices keeps them; one that was running when this
// process started gets none.
//
// The error is an [UnavailableError]; the container has nothing of the resource then.
func (m *Manager) Allocate(_ context.Context, r topology.Request, hint topology.Hint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource, count := range asks(r.Container) {
		if !m.mineLocked(r.Pod, resource) {
			continue
		}
		if err := m.reserveLocked(r, resource, count, hint); err != nil {
			return err
		}
	}
	return nil
}

// asks returns what a container asks for of extended resources, by name in order.
func asks(c *corev1.Container) iter.Seq2[string, int] {
	all := map[string]int{}
	for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for name, q := range list {
			if q.Sign() > 0 && isExtended(string(name)) {
				all[string(name)] = int(q.Value())
			}
		}
	}
	return func(yield func(string, int) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

// mineLocked reports whether a resource comes from plugins.
func (m *Manager) mineLocked(pod *corev1.Pod, resource string) bool {
	return m.offers[resource] != nil || m.cfg.Expected(pod, corev1.ResourceName(resource))
}

// reserveLocked notes devices for a container.
func (m *Manager) reserveLocked(r topology.Request, resource string, count int, hint topology.Hint) error {
	o := owner{r.Pod.UID, r.Container.Name, resource}
	has := m.book.get(o)
	var had []string
	if has != nil {
		if had = has.ids(); len(had) != count {
			return never(resource, "pod %q container %q changed request for resource %q from %d to %d", o.pod, o.container, resource, len(had), count)
		}
	}
	if m.cfg.Ran(o.pod, o.container) || has != nil && has.admitted {
		return nil
	}
	if err := m.offers.fit(resource, had); err != nil {
		return &UnavailableError{Resource: resource, Again: m.mayComeLocked(r.Pod, resource), Err: err}
	}
	if has != nil {
		has.admitted = true
		return nil
	}
	req := m.requestLocked(r, resource, count, hint.Nodes)
	options, err := req.options()
	if err != nil {
		return &UnavailableError{Resource: resource, Again: count <= m.offers[resource].healthy(), Err: err}
	}
	m.book.put(o, &share{places: placed(options.pick(count, nil), req.devices), nodes: hint.Nodes, admitted: true})
	return nil
}

// mayComeLocked reports whether a plugin that has not listed its devices yet may do so
// in time.
func (m *Manager) mayComeLocked(pod *corev1.Pod, resource string) bool {
	o := m.offers[resource]
	if o == nil {
		return m.cfg.Expected(pod, corev1.ResourceName(resource))
	}
	return !o.gone && !o.seen
}

// requestLocked describes what a container asks for, and what there is.
func (m *Manager) requestLocked(r topology.Request, resource string, count int, nodes topology.Nodes) request {
	return request{
		resource: resource, count: count,
		devices: m.offers[resource].devices, ids: m.offers[resource].ids, taken: m.takenLocked(r, resource),
		reusable: m.reusableLocked(r, resource),
		nodes:    nodes.IDs(),
	}
}

// Prepare has the plugins say how the containers of a pod get at the devices that are
// allocated to them, and writes down who has what. It has to return nil before the pod
// starts, and may be called again. It takes as long as the plugins take, at most
// Config.Timeout for each call. The error is an [UnavailableError], unless the disk is
// at fault.
func (m *Manager) Prepare(ctx context.Context, pod *corev1.Pod) error {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := m.prepare(ctx, topology.Request{Pod: pod, Container: &list[i]}); err != nil {
				return err
			}
		}
	}
	return m.save()
}

// prepare is Prepare for one container, without writing.
func (m *Manager) prepare(ctx context.Context, r topology.Request) error {
	for resource := range asks(r.Container) {
		p, o := m.pending(r, resource)
		if o == nil {
			continue
		}
		if p == nil {
			return &UnavailableError{Resource: resource, Again: m.awaited(resource), Err: fmt.Errorf("device plugin of %s has gone", resource)}
		}
		if err := m.ask(ctx, p, r, o); err != nil {
			return err
		}
	}
	return nil
}

// pending returns the plugin to ask and what is to be chosen, or no options if the
// container has nothing of the resource or the plugin has answered before.
func (m *Manager) pending(r topology.Request, resource string) (*plugin, *options) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := owner{r.Pod.UID, r.Container.Name, resource}
	s := m.book.get(o)
	if s == nil || s.answer != nil {
		return nil, nil
	}
	req := m.requestLocked(r, resource, len(s.ids()), s.nodes)
	options, err := req.options()
	if err != nil { // less is healthy by now: it stays as it is
		options.got, options.pools = s.ids(), nil
	}
	return m.offers[resource].inCharge(), &options
}

// awaited reports whether the plugin of a resource may come back in time.
func (m *Manager) awaited(resource string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.offers[resource]
	return o != nil && !o.gone
}

// ask asks a plugin what it prefers and how the container gets at it.
func (m *Manager) ask(ctx context.Context, p *plugin, r topology.Request, o *options) error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	who := owner{r.Pod.UID, r.Container.Name, p.resource}
	var preferred []string
	if len(o.pools) > 0 {
		var err error
		if preferred, err = p.prefer(bounded, o, m.count(who)); err != nil {
			return err
		}
	}
	ids := m.settle(r, who, preferred)
	if ids == nil {
		return errReleased(who)
	}
	answer, err := p.allocate(bounded, ids)
	if m.cfg.Hooks.Allocated != nil {
		m.cfg.Hooks.Allocated(p.resource, time.Since(began))
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.book.get(who)
	if s == nil || !slices.Equal(s.ids(), ids) {
		return errReleased(who)
	}
	s.answer = answer
	m.unsaved = true
	return nil
}

func errReleased(o owner) error {
	return notYet(o.resource, "devices of container %s of pod %s were taken back while its plugin was asked", o.container, o.pod)
}

// count returns how many devices an owner has.
func (m *Manager) count(o owner) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.book.get(o); s != nil {
		return len(s.ids())
	}
	return 0
}

// settle exchanges what was kept for a container for what init containers before it have
// been given, and for what its plugin prefers, as far as that is still free, and returns
// it; nil if the container has nothing any more.
func (m *Manager) settle(r topology.Request, who owner, preferred []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.book.get(who)
	if s == nil {
		return nil
	}
	if s.answer == nil {
		kept := s.ids()
		req := m.requestLocked(r, who.resource, len(kept), s.nodes)
		if options, err := req.options(); err == nil { // else less is healthy by now
			ids := options.pick(len(kept), slices.Concat(preferred, kept))
			m.book.put(who, &share{places: placed(ids, req.devices), nodes: s.nodes, admitted: s.admitted})
		}
	}
	return m.book.get(who).ids()
}

// validName says what is wrong with the name of a resource of a plugin.
func validName(resource string) error {
	if !isExtended(resource) {
		return fmt.Errorf("the ResourceName %q is invalid", resource)
	}
	return nil
}
