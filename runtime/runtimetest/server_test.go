package runtimetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func sandboxConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Labels:   map[string]string{"io.kubernetes.pod.uid": "uid-" + name},
	}
}

func containerConfig(name string, attempt uint32) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: "img.example/web:1"},
	}
}

func TestLifeInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "img.example/web:1"}}})
		s.SetLives("app", runtimetest.Exits(time.Hour, 3))
		c := s.Client(t)
		ctx := t.Context()
		sb, err := c.RunPodSandbox(ctx, sandboxConfig("web"), "")
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.CreateContainer(ctx, sb, containerConfig("app", 0), sandboxConfig("web"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.StartContainer(ctx, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Second)
		st, err := c.ContainerStatus(ctx, id, false)
		if err != nil {
			t.Fatal(err)
		}
		if st.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED || st.Status.ExitCode != 3 {
			t.Errorf("after an hour: %v", st.Status)
		}
		s.WantChanges(t, "RunPodSandbox default/web", "CreateContainer default/web/app", "StartContainer default/web/app")
	})
}

func TestUnixSocket(t *testing.T) {
	s := runtimetest.StartUnix(t, runtimetest.Config{})
	c := s.Client(t)
	if _, err := c.RunPodSandbox(t.Context(), sandboxConfig("web"), ""); err != nil {
		t.Fatal(err)
	}
	snap, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Pods) != 1 {
		t.Errorf("snapshot has %d pods, want 1", len(snap.Pods))
	}
}
