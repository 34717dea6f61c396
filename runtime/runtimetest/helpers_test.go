package runtimetest_test

import (
	"fmt"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

const image = "img.example/web:1"

// world is a server with a client for a test.
type world struct {
	testing.TB
	server *runtimetest.Server
	client *runtime.Client
}

// newWorld starts a runtime that has image, in memory.
func newWorld(tb testing.TB, cfg runtimetest.Config) *world {
	tb.Helper()
	if cfg.Images == nil {
		cfg.Images = []runtimetest.Image{{Name: image}}
	}
	s := runtimetest.Start(tb, cfg)
	return &world{TB: tb, server: s, client: s.Client(tb)}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func sandboxConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Labels:   map[string]string{"io.kubernetes.pod.uid": "uid-" + name},
	}
}

func containerConfig(name string, attempt uint32) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: image},
	}
}

func (w *world) run(sandbox *runtimeapi.PodSandboxConfig) string {
	w.Helper()
	id, err := w.client.RunPodSandbox(w.Context(), sandbox, "")
	w.must(err)
	return id
}

func (w *world) start(sandbox string, config *runtimeapi.ContainerConfig) string {
	w.Helper()
	id, err := w.client.CreateContainer(w.Context(), sandbox, config, sandboxConfig("web"))
	w.must(err)
	w.must(w.client.StartContainer(w.Context(), id))
	return id
}

// state is a container's state in one line.
func (w *world) state(id string) string {
	w.Helper()
	resp, err := w.client.ContainerStatus(w.Context(), id, false)
	w.must(err)
	st := resp.GetStatus()
	switch st.GetState() {
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		lived := time.Duration(st.GetFinishedAt() - st.GetStartedAt())
		return fmt.Sprintf("%s, code %d, after %v", st.GetReason(), st.GetExitCode(), lived)
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return "running"
	default:
		return st.GetState().String()
	}
}

func (w *world) wantState(id, want string) {
	w.Helper()
	if got := w.state(id); got != want {
		w.Errorf("container is %q, want %q", got, want)
	}
}

// failures is a testing.TB that counts what a helper reports.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// elapse lets time pass in a bubble.
func elapse(d time.Duration) { <-time.After(d) }
