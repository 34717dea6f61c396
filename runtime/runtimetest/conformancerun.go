package runtimetest

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

const (
	// conformanceNamespace holds the pods that Conformance makes.
	conformanceNamespace = "conformance"
	// conformancePatience bounds each wait for a container, on a busy machine too.
	conformancePatience = 30 * time.Second
	// conformancePoll is the time between two looks.
	conformancePoll = 20 * time.Millisecond
)

// conformanceRun is one case against one target.
type conformanceRun struct {
	*testing.T
	target Target
	client *runtime.Client
}

func newConformanceRun(t *testing.T, target Target) *conformanceRun {
	t.Helper()
	r := &conformanceRun{T: t, target: target}
	r.client = r.dial(runtime.Config{})
	return r
}

func (r *conformanceRun) dial(cfg runtime.Config) *runtime.Client {
	r.Helper()
	c, err := r.target.Dial(r.Context(), cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := c.Close(); err != nil {
			r.Error(err)
		}
	})
	return c
}

// must fails the case on an error.
func (r *conformanceRun) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// wantIs fails the case unless err is kind.
func (r *conformanceRun) wantIs(what string, err, kind error) {
	r.Helper()
	if !errors.Is(err, kind) {
		r.Errorf("%s: error is %v, want %q", what, err, kind)
	}
}

// pod is a pod of a case: one sandbox and its configuration.
type pod struct {
	r      *conformanceRun
	id     string
	config *runtimeapi.PodSandboxConfig
}

// podConfig is a new pod's, with names of its own.
func (r *conformanceRun) podConfig() *runtimeapi.PodSandboxConfig {
	uid := "conformance-" + rand.Text()
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: conformanceNamespace, Uid: uid},
		Hostname: "pod",
		// The logs are how a case knows that a program has begun.
		LogDirectory: r.TempDir(),
		Labels: map[string]string{
			"io.kubernetes.pod.name":      "pod",
			"io.kubernetes.pod.namespace": conformanceNamespace,
			"io.kubernetes.pod.uid":       uid,
		},
		Annotations: map[string]string{"example.org/note": "kept as it is"},
		Linux:       &runtimeapi.LinuxPodSandboxConfig{CgroupParent: r.target.CgroupParent},
	}
}

// runPod makes a sandbox that goes when the case ends.
func (r *conformanceRun) runPod(config *runtimeapi.PodSandboxConfig) *pod {
	r.Helper()
	id, err := r.client.RunPodSandbox(r.Context(), config, "")
	r.must(err)
	r.Cleanup(func() {
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), conformancePatience)
		defer cancel()
		if err := r.client.StopPodSandbox(ctx, id); err != nil && !errors.Is(err, runtime.ErrNotFound) {
			r.Error(err)
		}
		if err := r.client.RemovePodSandbox(ctx, id); err != nil {
			r.Error(err)
		}
	})
	return &pod{r: r, id: id, config: config}
}

// containerConfig is a container's that lives like that.
func (p *pod) containerConfig(name string, life Life) *runtimeapi.ContainerConfig {
	life.Log = []LogLine{{Text: "start"}}
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: p.r.target.Image},
		LogPath:  name + ".log",
		Args:     p.r.target.Args(name, life),
		Labels: map[string]string{
			"io.kubernetes.container.name": name,
			"io.kubernetes.pod.uid":        p.config.GetMetadata().GetUid(),
		},
		Annotations: map[string]string{"example.org/note": "kept as it is"},
		Linux:       &runtimeapi.LinuxContainerConfig{},
	}
}

func (p *pod) create(config *runtimeapi.ContainerConfig) string {
	p.r.Helper()
	id, err := p.r.client.CreateContainer(p.r.Context(), p.id, config, p.config)
	p.r.must(err)
	return id
}

// start creates and starts a container, and waits until its program has said
// something: before, it may not have said yet what a signal is to do.
func (p *pod) start(name string, life Life) string {
	p.r.Helper()
	config := p.containerConfig(name, life)
	id := p.create(config)
	p.r.must(p.r.client.StartContainer(p.r.Context(), id))
	p.r.firstLine(filepath.Join(p.config.GetLogDirectory(), config.GetLogPath()))
	return id
}

// wantReserved fails the test unless a name in use was refused, or answered with the id
// that has it, as CRI-O does.
func (r *conformanceRun) wantReserved(what, got, owner string, err error) {
	r.Helper()
	if err == nil && got == owner {
		return
	}
	r.wantIs(what, err, runtime.ErrAlreadyExists)
}

func (r *conformanceRun) status(id string) *runtimeapi.ContainerStatus {
	r.Helper()
	resp, err := r.client.ContainerStatus(r.Context(), id, false)
	r.must(err)
	return resp.GetStatus()
}

func (r *conformanceRun) wantState(id string, want runtimeapi.ContainerState) {
	r.Helper()
	if got := r.status(id).GetState(); got != want {
		r.Errorf("state of the container is %v, want %v", got, want)
	}
}

// waitExit waits until the container has ended.
func (r *conformanceRun) waitExit(id string) *runtimeapi.ContainerStatus {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), conformancePatience)
	defer cancel()
	for {
		st := r.status(id)
		if st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			return st
		}
		if sleep(ctx, conformancePoll) != nil {
			r.Fatalf("container is %v after %v, want it exited", st.GetState(), conformancePatience)
		}
	}
}
