package runtimetest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one pod sandbox. The world's lock guards it.
type sandbox struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	handler string
	ready   bool
	created time.Time
	ips     []netip.Addr
}

// sandboxName is what a runtime reserves: no two sandboxes have the same.
func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

func (w *world) runSandbox(config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	m := config.GetMetadata()
	if m.GetName() == "" || m.GetNamespace() == "" || m.GetUid() == "" {
		return "", invalid("RunPodSandbox: metadata needs name, namespace and uid, got %v", m)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := sandboxName(m)
	if owner, taken := w.sandboxNames[name]; taken {
		if w.kind == CRIO {
			return owner, nil
		}
		return "", w.kind.reserved("sandbox", name, owner)
	}
	s := &sandbox{id: w.newIDLocked("sandbox " + name), config: clone(config), handler: handler, ready: true, created: time.Now()}
	if !s.hostNetwork() {
		if err := w.network.err(); err != nil {
			return "", err
		}
		ips, err := w.podIPs.take()
		if err != nil {
			return "", err
		}
		s.ips = ips
	}
	w.sandboxes[s.id] = s
	w.sandboxNames[name] = s.id
	w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, s.id, s)
	w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, s.id, s)
	return s.id, nil
}

func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// stopSandbox kills the containers of a sandbox.
func (w *world) stopSandbox(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sandboxes[id]
	if s == nil && w.kind.stopsUnknown() {
		return nil
	}
	if s == nil {
		return notFound("sandbox", id)
	}
	w.stopSandboxLocked(s)
	return nil
}

func (w *world) stopSandboxLocked(s *sandbox) {
	for _, c := range w.containersOfLocked(s) {
		w.exitLocked(c, killed())
	}
	if s.ready {
		s.ready = false
		s.ips = nil
		w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, s.id, s)
	}
}

// removeSandbox stops a sandbox and removes it with its containers.
func (w *world) removeSandbox(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sandboxes[id]
	if s == nil {
		return
	}
	w.stopSandboxLocked(s)
	for _, c := range w.containersOfLocked(s) {
		w.removeContainerLocked(c)
	}
	delete(w.sandboxes, id)
	delete(w.sandboxNames, sandboxName(s.config.GetMetadata()))
	w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, s.id, s)
}

func (w *world) containersOfLocked(s *sandbox) []*container {
	var found []*container
	for _, c := range w.containers {
		if c.sandbox == s {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *container) int { return a.serial - b.serial })
	return found
}

func (w *world) sandboxStatus(id string) (*runtimeapi.PodSandboxStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sandboxes[id]
	if s == nil {
		return nil, notFound("sandbox", id)
	}
	return s.statusLocked(), nil
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) statusLocked() *runtimeapi.PodSandboxStatus {
	st := &runtimeapi.PodSandboxStatus{
		Id:             s.id,
		Metadata:       clone(s.config.GetMetadata()),
		State:          s.state(),
		CreatedAt:      s.created.UnixNano(),
		Network:        &runtimeapi.PodSandboxNetworkStatus{},
		Labels:         maps.Clone(s.config.GetLabels()),
		Annotations:    maps.Clone(s.config.GetAnnotations()),
		RuntimeHandler: s.handler,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: clone(s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()),
		}},
	}
	for i, ip := range s.ips {
		if i == 0 {
			st.Network.Ip = ip.String()
			continue
		}
		st.Network.AdditionalIps = append(st.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip.String()})
	}
	return st
}

func (w *world) listSandboxes(f *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	w.mu.Lock()
	defer w.mu.Unlock()
	var items []*runtimeapi.PodSandbox
	for _, s := range w.sandboxes {
		if (f.GetId() != "" && f.GetId() != s.id) ||
			(f.GetState() != nil && f.GetState().GetState() != s.state()) ||
			!matchLabels(f.GetLabelSelector(), s.config.GetLabels()) {
			continue
		}
		items = append(items, &runtimeapi.PodSandbox{
			Id:             s.id,
			Metadata:       clone(s.config.GetMetadata()),
			State:          s.state(),
			CreatedAt:      s.created.UnixNano(),
			Labels:         maps.Clone(s.config.GetLabels()),
			Annotations:    maps.Clone(s.config.GetAnnotations()),
			RuntimeHandler: s.handler,
		})
	}
	return items
}

// readySandboxLocked is the sandbox in which a container can be made.
func (w *world) readySandboxLocked(id string) (*sandbox, error) {
	s := w.sandboxes[id]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", id)
	}
	if !s.ready {
		return nil, status.Errorf(codes.NotFound, "failed to get sandbox container task: no running task found: task %s not found: not found", id)
	}
	return s, nil
}
