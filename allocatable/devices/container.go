package devices

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// Container returns how a container gets at its devices, nil if it asks for none: what
// its plugins answered, merged. It has to be called before each run of the container is
// created, as plugins may want to prepare the devices for it (PreStartContainer). What
// the container should have and has not, as after the loss of the checkpoint, is
// allocated.
//
// A container whose plugin has not come back since this process started waits for it,
// unless it was running then: the machine may have been started anew. So does one whose
// plugin has gone since and wants to prepare the devices.
func (m *Manager) Container(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (*deviceapi.ContainerAllocateResponse, error) {
	r := topology.Request{Pod: pod, Container: c}
	var answers []*deviceapi.ContainerAllocateResponse
	for resource := range asks(c) {
		answer, err := m.start(ctx, r, resource)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			answers = append(answers, answer)
		}
	}
	if len(answers) == 0 {
		return nil, nil
	}
	if err := m.save(); err != nil {
		return nil, err
	}
	return m.merge(c.Name, answers), nil
}

// start has the devices of one resource ready for a run.
func (m *Manager) start(ctx context.Context, r topology.Request, resource string) (*deviceapi.ContainerAllocateResponse, error) {
	s, p, err := m.claim(r, resource)
	if s == nil || err != nil {
		return nil, err
	}
	if s.answer == nil {
		if err := m.prepare(ctx, r); err != nil {
			return nil, err
		}
		if s, p, err = m.claim(r, resource); s == nil || err != nil {
			return nil, err
		}
	}
	if p != nil {
		if err := p.preStart(ctx, s.ids()); err != nil {
			return nil, err
		}
	}
	return s.answer, nil
}

// claim returns what a container has of a resource, nil if the resource is not of
// plugins, and the plugin if one is there.
func (m *Manager) claim(r topology.Request, resource string) (*share, *plugin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mineLocked(r.Pod, resource) {
		return nil, nil, nil
	}
	who := owner{r.Pod.UID, r.Container.Name, resource}
	o := m.offers[resource]
	s := m.book.get(who)
	switch {
	case o == nil || !o.seen && !m.cfg.Ran(who.pod, who.container):
		return nil, nil, notYet(resource, "no device plugin of %s has registered yet", resource)
	case s == nil:
		for name, count := range asks(r.Container) {
			if name != resource {
				continue
			}
			if err := m.assignLocked(r, resource, count); err != nil {
				return nil, nil, err
			}
		}
		s = m.book.get(who)
	}
	p := o.inCharge()
	if p == nil && o.could.GetPreStartRequired() {
		return nil, nil, notYet(resource, "device plugin of %s has gone, and has to prepare devices before each run", resource)
	}
	copied := *s
	return &copied, p, nil
}

// assignLocked allocates devices to a container that should have had some.
func (m *Manager) assignLocked(r topology.Request, resource string, count int) error {
	if err := m.offers.fit(resource, nil); err != nil {
		return &UnavailableError{Resource: resource, Again: true, Err: err}
	}
	req := m.requestLocked(r, resource, count, 0)
	options, err := req.options()
	if err != nil {
		return &UnavailableError{Resource: resource, Again: true, Err: err}
	}
	m.log.Warn("a container had no devices noted and gets others", "pod", r.Pod.Namespace+"/"+r.Pod.Name, "container", r.Container.Name, "resource", resource)
	m.book.put(owner{r.Pod.UID, r.Container.Name, resource}, &share{places: placed(options.pick(count, nil), req.devices)})
	return nil
}

// merge puts the answers of several plugins together. Where two say different things of
// one name or place the first, by the name of the resource, counts.
func (m *Manager) merge(container string, answers []*deviceapi.ContainerAllocateResponse) *deviceapi.ContainerAllocateResponse {
	out := &deviceapi.ContainerAllocateResponse{Envs: map[string]string{}, Annotations: map[string]string{}}
	mounts, devices := map[string]string{}, map[string]string{}
	first := func(what string, known map[string]string, key, value string) bool {
		old, double := known[key]
		switch {
		case !double:
			known[key] = value
		case old != value:
			m.log.Warn("device plugins disagree", "container", container, "about", what, "at", key, "used", old, "ignored", value)
		}
		return !double
	}
	for _, a := range answers {
		for _, name := range slices.Sorted(maps.Keys(a.GetEnvs())) {
			first("environment variable", out.Envs, name, a.GetEnvs()[name])
		}
		for _, name := range slices.Sorted(maps.Keys(a.GetAnnotations())) {
			first("annotation", out.Annotations, name, a.GetAnnotations()[name])
		}
		for _, x := range a.GetMounts() {
			if first("mount", mounts, x.GetContainerPath(), x.GetHostPath()) {
				out.Mounts = append(out.Mounts, x)
			}
		}
		for _, x := range a.GetDevices() {
			if first("device", devices, x.GetContainerPath(), x.GetHostPath()) {
				out.Devices = append(out.Devices, x)
			}
		}
		for _, x := range a.GetCdiDevices() {
			if !slices.ContainsFunc(out.CdiDevices, func(y *deviceapi.CDIDevice) bool { return y.GetName() == x.GetName() }) {
				out.CdiDevices = append(out.CdiDevices, x)
			}
		}
	}
	return out
}
