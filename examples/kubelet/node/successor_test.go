package node_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// edited returns another version of a manifest's pod.
func edited(name, uid string) *corev1.Pod {
	pod := newPod(name)
	pod.UID = types.UID(uid)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: uid}}
	return pod
}

// wantOne fails the test unless web runs in this version and no other pod of that name
// has a sandbox.
func (m *machine) wantOne(t *testing.T, k *kubelet, uid types.UID) {
	t.Helper()
	if pod := k.pods()["web"]; pod.UID != uid || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("pod %s is %s, want %s running", pod.UID, pod.Status.Phase, uid)
	}
	if got := m.containers(t)["web"]; got == "" {
		t.Error("no container of web runs")
	}
}

// TestManifestEditedWhileTheAgentIsDown in a cluster, whose API server answers some time
// after the manifests were read, or not at all: the old version ends, with its grace period,
// before the new one starts. What is in no manifest any more waits for the API server.
func TestManifestEditedWhileTheAgentIsDown(t *testing.T) {
	for name, late := range map[string]time.Duration{"late": 100 * time.Millisecond, "away": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.SetLives("app", runtimetest.Life{Term: &runtimetest.Exit{After: 8 * time.Second}})
				s := newAPIServer()
				m.manifests.write(newPod("web"), newPod("removed"))
				k := m.start(t, s.inCluster)
				pass(10 * time.Second)
				k.end()
				s.setDown(true)
				m.manifests.write(edited("web", "uid-web-2"))
				m.ForgetCalls()
				k = m.start(t, s.inCluster)
				up := time.AfterFunc(late, func() { s.setDown(false) })
				defer up.Stop()
				for range 70 {
					pass(100 * time.Millisecond)
					if got := m.Calls("RunPodSandbox"); len(got) != 0 {
						t.Fatalf("%v before the old version has ended", got)
					}
				}
				pass(13 * time.Second)
				m.wantOne(t, k, "uid-web-2")
				if late > time.Minute {
					m.wantRunning("removed", "web")
				}
				pass(15 * time.Minute)
				m.wantRunning("web")
				if got := m.readySandboxes(t); got != 1 {
					t.Errorf("%d sandboxes are ready, want that of the new version alone", got)
				}
			})
		})
	}
}

// TestManifestEditedWhileTheAPIServerIsAway: it may be that very pod. The new version runs,
// also the old one again if the edit is taken back, and also after its end under the same UID.
func TestManifestEditedWhileTheAPIServerIsAway(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.setDown(true)
		other := newPod("other")
		m.manifests.write(newPod("web"), other)
		k := m.start(t, s.inCluster)
		pass(10 * time.Second)
		before := m.containers(t)["other"]
		for _, pod := range []*corev1.Pod{edited("web", "uid-web-2"), newPod("web"), edited("web", "uid-web-3")} {
			m.manifests.write(pod, other)
			pass(time.Minute)
			m.wantOne(t, k, pod.UID)
			if got := m.readySandboxes(t); got != 2 {
				t.Errorf("%d sandboxes are ready, want those of web and other", got)
			}
		}
		m.manifests.write(other)
		pass(2 * time.Second)
		m.manifests.write(edited("web", "uid-web-4"), other)
		pass(time.Minute)
		m.wantOne(t, k, "uid-web-4")
		if got := m.readySandboxes(t); got != 2 {
			t.Errorf("%d sandboxes are ready, want those of web and other", got)
		}
		if after := m.containers(t)["other"]; after != before {
			t.Errorf("container of the other pod was %s, is %s", before, after)
		}
	})
}

// TestFailedManifestIsMendedWhileTheAPIServerIsAway: a manifest that states its UID was
// refused, and runs once it is mended.
func TestFailedManifestIsMendedWhileTheAPIServerIsAway(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.setDown(true)
		bad := newPod("web")
		bad.Spec.NodeName = "node-b"
		m.manifests.write(bad)
		k := m.start(t, s.inCluster)
		pass(20 * time.Second)
		if got := k.pods()["web"].Status.Phase; got != corev1.PodFailed {
			t.Fatalf("a pod for another node is %s, want Failed", got)
		}
		m.manifests.write(newPod("web"))
		pass(20 * time.Second)
		m.wantOne(t, k, "uid-web")
	})
}
