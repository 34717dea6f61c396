package podsync_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestPullPolicies(t *testing.T) {
	const absent = "img.example/new:2"
	tests := []struct {
		name   string
		image  string
		policy corev1.PullPolicy
		pulls  int
		reason string
	}{
		{name: "present, if not present", image: shell, policy: corev1.PullIfNotPresent},
		{name: "present, never", image: shell, policy: corev1.PullNever},
		{name: "present, always", image: shell, policy: corev1.PullAlways, pulls: 1},
		{name: "absent, if not present", image: absent, policy: corev1.PullIfNotPresent, pulls: 1},
		{name: "absent, default of a tag", image: absent, pulls: 1},
		{name: "absent, never", image: absent, policy: corev1.PullNever, reason: "ErrImageNeverPull"},
		{name: "no tag, default", image: "img.example/new", pulls: 1},
		{name: "no name", image: "img.example/ new", reason: "InvalidImageName"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				for _, name := range []string{absent, "img.example/new"} {
					m.SetImage(runtimetest.Image{Name: name, Pull: &runtimetest.Pull{Takes: time.Second}})
				}
				a := m.agent(t)
				pod := newPod("web", corev1.Container{Name: "app", Image: tt.image, ImagePullPolicy: tt.policy})
				a.add(pod)
				pass(5 * time.Second)
				if got := len(m.Calls("PullImage")); got != tt.pulls {
					t.Errorf("%d pulls, want %d", got, tt.pulls)
				}
				c := a.status(pod).ContainerStatuses[0]
				switch {
				case tt.reason == "" && c.State.Running == nil:
					t.Errorf("state is %+v, want running", c.State)
				case tt.reason != "" && (c.State.Waiting == nil || c.State.Waiting.Reason != tt.reason):
					t.Errorf("state is %+v, want waiting for %s", c.State, tt.reason)
				}
			})
		})
	}
}

func TestPullBackoff(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetImage(runtimetest.Image{Name: "img.example/gone:1", Pull: &runtimetest.Pull{Err: status.Error(codes.NotFound, "no such image")}})
		a := m.agent(t)
		pod := newPod("web", corev1.Container{Name: "app", Image: "img.example/gone:1"})
		a.add(pod)
		pass(time.Millisecond)
		c := a.status(pod).ContainerStatuses[0]
		if c.State.Waiting == nil || c.State.Waiting.Reason != "ErrImagePull" || !strings.Contains(c.State.Waiting.Message, "no such image") {
			t.Errorf("state is %+v, want the error", c.State)
		}
		pass(10 * time.Minute)
		var gaps []time.Duration
		calls := m.Calls("PullImage")
		for i := 1; i < len(calls); i++ {
			gaps = append(gaps, calls[i].Began.Sub(calls[i-1].Ended).Round(5*time.Second))
		}
		if diff := cmp.Diff(seconds(10, 20, 40, 80, 160), gaps[:5]); diff != "" {
			t.Errorf("waits between pulls (-want +got):\n%s", diff)
		}
	})
}

func TestPullIsWaitedForWithoutSecondPull(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetImage(runtimetest.Image{Name: "img.example/big:1", Pull: &runtimetest.Pull{Takes: 3 * time.Minute}})
		a := m.agent(t)
		pod := newPod("web", corev1.Container{Name: "app", Image: "img.example/big:1"})
		a.add(pod)
		pass(time.Minute)
		if got := a.status(pod).ContainerStatuses[0].State.Waiting; got == nil || got.Reason != "ContainerCreating" {
			t.Errorf("state is %+v, want ContainerCreating", got)
		}
		if got := a.status(pod).PodIP; got != "10.88.0.2" {
			t.Errorf("address is %q while the image is pulled", got)
		}
		began := time.Now()
		a.remove(pod) // the pull is given up
		pass(5 * time.Second)
		if _, known := a.pool.State(pod.UID); known {
			t.Errorf("the pod has not finished %s after it was removed", time.Since(began))
		}
		if got := len(m.Calls("PullImage")); got != 1 {
			t.Errorf("%d pulls, want 1", got)
		}
	})
}

// TestPulledImageIsUnknown has a runtime that forgets an image at once: nobody would
// know whether the container has to run as root.
func TestPulledImageIsUnknown(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetImage(runtimetest.Image{Name: "img.example/new:2", Pull: &runtimetest.Pull{}})
		m.Inject("ImageStatus", runtimetest.Fault{Edit: func(resp protoMessage) { resp.(*runtimeapi.ImageStatusResponse).Image = nil }})
		a := m.agent(t)
		pod := newPod("web", corev1.Container{Name: "app", Image: "img.example/new:2"})
		a.add(pod)
		pass(5 * time.Second)
		if w := a.status(pod).ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ImageInspectError" {
			t.Errorf("state is %+v, want ImageInspectError", w)
		}
		if got := len(m.Calls("CreateContainer")); got != 0 {
			t.Errorf("%d containers created, want none", got)
		}
	})
}

// TestPullBackoffDelaysNoRestart has a container that crashes beside one whose image
// cannot be pulled.
func TestPullBackoffDelaysNoRestart(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(0, 1))
		m.SetImage(runtimetest.Image{Name: "img.example/gone:1", Pull: &runtimetest.Pull{Err: status.Error(codes.NotFound, "no such image")}})
		a := m.agent(t)
		a.add(newPod("mixed", corev1.Container{Name: "app", Image: shell}, corev1.Container{Name: "gone", Image: "img.example/gone:1"}))
		pass(10 * time.Minute)
		got := gaps(m, make([]time.Duration, 100))
		for i, want := range seconds(0, 10, 20, 40, 80, 160) {
			if i >= len(got) || got[i] < want || got[i] > want+2*time.Second {
				t.Fatalf("gaps between the starts of the other container are %v", got)
			}
		}
	})
}
