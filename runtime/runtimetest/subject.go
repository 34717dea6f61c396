package runtimetest

import (
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// subject names what a request is about in words that do not change from run to run.
func (w *world) subject(req proto.Message) string {
	switch r := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		return podName(r.GetConfig().GetMetadata())
	case *runtimeapi.CreateContainerRequest:
		return w.sandboxSubject(r.GetPodSandboxId()) + "/" + r.GetConfig().GetMetadata().GetName()
	case interface{ GetPodSandboxId() string }:
		return w.sandboxSubject(r.GetPodSandboxId())
	case interface{ GetContainerId() string }:
		return w.containerSubject(r.GetContainerId())
	case interface{ GetImage() *runtimeapi.ImageSpec }:
		return r.GetImage().GetImage()
	}
	return ""
}

func podName(m *runtimeapi.PodSandboxMetadata) string { return m.GetNamespace() + "/" + m.GetName() }

func (w *world) sandboxSubject(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.sandboxes[id]; s != nil {
		return podName(s.config.GetMetadata())
	}
	return id
}

func (w *world) containerSubject(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.containers[id]; c != nil {
		return podName(c.sandbox.config.GetMetadata()) + "/" + c.config.GetMetadata().GetName()
	}
	return id
}
