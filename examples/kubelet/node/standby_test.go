package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// storing has a node keep its API pods.
func storing(c *node.Config) { c.PodStore = &node.PodStore{} }

// reboot ends the agent and all that runs on the machine.
func (m *machine) reboot(k *kubelet) {
	m.t.Helper()
	k.end()
	c := m.Client(m.t)
	defer c.Close()
	list, err := c.ListPodSandbox(m.t.Context(), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, sb := range list {
		if err := c.StopPodSandbox(m.t.Context(), sb.GetId()); err != nil {
			m.t.Fatal(err)
		}
	}
	m.ForgetCalls()
}

// runningPods returns the names of the pods with a running container, sorted.
func (m *machine) runningPods() map[string]bool {
	m.t.Helper()
	running := map[string]bool{}
	for name := range m.containers(m.t) {
		running[name] = true
	}
	return running
}

// wantRunning fails the test unless exactly these pods have running containers.
func (m *machine) wantRunning(names ...string) {
	m.t.Helper()
	want := map[string]bool{}
	for _, name := range names {
		want[name] = true
	}
	if diff := cmp.Diff(want, m.runningPods()); diff != "" {
		m.t.Errorf("running pods (-want +got):\n%s", diff)
	}
}

// TestRebootWithoutTheAPIServer: with a pod store the pods run again, soon but not before
// the API server was asked, and what that says when it is back takes the place of what was
// stored. Without a store nothing starts.
func TestRebootWithoutTheAPIServer(t *testing.T) {
	for name, stored := range map[string]bool{"with a store": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				s := newAPIServer()
				edit := []func(*node.Config){s.inCluster}
				if stored {
					edit = append(edit, storing)
				}
				s.bind(apiPod("web"), apiPod("db"), apiPod("evicted"))
				k := m.start(t, edit...)
				pass(30 * time.Second)
				m.wantRunning("db", "evicted", "web")
				m.reboot(k)
				s.setDown(true)
				k = m.start(t, edit...)
				pass(9 * time.Second)
				m.wantRunning()
				pass(7 * time.Second)
				if !stored {
					m.wantRunning()
					return
				}
				m.wantRunning("db", "evicted", "web")
				s.vanish("uid-evicted")
				s.bind(apiPod("new"))
				s.setDown(false)
				pass(2 * time.Minute)
				m.wantRunning("db", "new", "web")
				if got := s.phase("uid-web"); got != corev1.PodRunning {
					t.Errorf("the API server knows phase %s of web", got)
				}
				if got := k.pods()["web"].Status.ContainerStatuses[0].RestartCount; got != 1 {
					t.Errorf("restart count is %d, want 1 after a reboot", got)
				}
			})
		})
	}
}

// TestStoreIsNotAskedWhileTheAPIServerAnswers: nothing starts that it does not name, also
// when it is slow.
func TestStoreIsNotAskedWhileTheAPIServerAnswers(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(apiPod("web"), apiPod("moved"))
		k := m.start(t, s.inCluster, storing)
		pass(30 * time.Second)
		m.reboot(k)
		s.vanish("uid-moved")
		s.setDown(true)
		m.start(t, s.inCluster, storing)
		pass(8 * time.Second)
		s.setDown(false)
		pass(time.Minute)
		m.wantRunning("web")
		for _, config := range m.Calls("RunPodSandbox") {
			if strings.Contains(config.String(), "moved") {
				t.Errorf("a sandbox was made: %v", config)
			}
		}
	})
}

// TestPodThatTheClusterHasGivenUpDoesNotStart: the toleration of an unreachable node
// counts from the last contact, which goes on being noted while the node works.
func TestPodThatTheClusterHasGivenUpDoesNotStart(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		daemon, patient := apiPod("daemon"), apiPod("patient")
		daemon.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		patient.Spec.Tolerations = []corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(7200)),
		}}
		s.bind(apiPod("web"), daemon, patient)
		k := m.start(t, s.inCluster, storing)
		for range 90 { // labels change all the time
			pass(20 * time.Second)
			daemon.Labels = map[string]string{"time": time.Now().Format("150405")}
			s.bind(daemon)
		}
		pass(2 * time.Second)
		k.end()
		k = m.start(t, s.inCluster, storing)
		pass(2 * time.Second)
		m.reboot(k)
		s.setDown(true)
		pass(4*time.Minute - 30*time.Second)
		k = m.start(t, s.inCluster, storing)
		pass(20 * time.Second)
		m.wantRunning("daemon", "patient", "web") // within 300 s
		m.reboot(k)
		pass(3 * time.Minute)
		k = m.start(t, s.inCluster, storing)
		pass(20 * time.Second)
		m.wantRunning("daemon", "patient")
		if got := k.pods()["web"].Status; got.Phase != corev1.PodPending || got.Reason != "NodeUnreachable" || !strings.Contains(got.Message, "has run out at") {
			t.Errorf("status of web is %+v", got)
		}
		s.setDown(false)
		pass(2 * time.Minute)
		m.wantRunning("daemon", "patient", "web") // the cluster wants it here
	})
}

// TestRestartOfTheAgentWithoutTheAPIServer: with a store the pods that run are looked
// after, also when their toleration has run out; nothing is restarted for it.
func TestRestartOfTheAgentWithoutTheAPIServer(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		pod := apiPod("web")
		pod.Spec.Containers[0].LivenessProbe = runs("liveness")
		s.bind(pod)
		k := m.start(t, s.inCluster, storing)
		pass(30 * time.Second)
		before := m.containers(t)
		k.end()
		s.setDown(true)
		pass(time.Hour)
		m.ForgetCalls()
		m.start(t, s.inCluster, storing)
		pass(time.Minute)
		if diff := cmp.Diff(before, m.containers(t)); diff != "" {
			t.Errorf("containers (-before +after):\n%s", diff)
		}
		m.unchanged(t)
		if len(m.ran("liveness")) == 0 {
			t.Error("the pod is not probed")
		}
		if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		m.wantRunning("web")
	})
}

// TestPodThatHasEndedIsNotRecalled, whatever of it the API server has learnt.
func TestPodThatHasEndedIsNotRecalled(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		job, late := apiPod("job"), apiPod("late")
		job.Spec.RestartPolicy, late.Spec.RestartPolicy = corev1.RestartPolicyNever, corev1.RestartPolicyNever
		m.SetLives("app", runtimetest.Exits(10*time.Second, 0))
		s.bind(job, late)
		k := m.start(t, s.inCluster, storing)
		pass(8 * time.Second)
		s.setDown(true)
		pass(20 * time.Second)
		m.wantRunning()
		m.reboot(k)
		m.start(t, s.inCluster, storing)
		pass(time.Minute)
		m.wantRunning()
		if got := m.Calls("StartContainer"); len(got) != 0 {
			t.Errorf("%d containers were started of pods that had ended", len(got))
		}
		s.setDown(false)
		pass(time.Minute)
		for _, pod := range []*corev1.Pod{job, late} {
			if got := s.phase(pod.UID); got != corev1.PodSucceeded {
				t.Errorf("the API server knows phase %q of %s", got, pod.Name)
			}
		}
	})
}

// TestDamagedStore is told of, and costs no more than what is damaged.
func TestDamagedStore(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(apiPod("web"), apiPod("db"))
		k := m.start(t, s.inCluster, storing)
		pass(30 * time.Second)
		m.reboot(k)
		s.setDown(true)
		if err := os.WriteFile(filepath.Join(m.root, "pod-store", "pod-uid-web"), []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
		m.start(t, s.inCluster, storing)
		pass(20 * time.Second)
		m.wantRunning("db")
		if !m.log.has("level=ERROR", "pod store is damaged", "pod-uid-web") {
			t.Error("the log does not tell")
		}
		s.setDown(false)
		pass(time.Minute)
		m.wantRunning("db", "web")
	})
}

// TestStoreThatCannotBeUsed does not keep the node from its work.
func TestStoreThatCannotBeUsed(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		if err := os.MkdirAll(m.root, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.root, "pod-store"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newAPIServer()
		s.bind(apiPod("web"))
		m.start(t, s.inCluster, storing)
		pass(30 * time.Second)
		m.wantRunning("web")
		if !m.log.has("level=ERROR", "pod store") {
			t.Error("the log does not tell")
		}
	})
}

// TestManifestPutBackWhileTheAPIServerIsAway: before that has answered nothing is stopped
// because it is not named, so the pod of a manifest that comes back has run on, and is shown
// as it is. Once it has answered, a manifest that is gone ends its pod.
func TestManifestPutBackWhileTheAPIServerIsAway(t *testing.T) {
	for name, gap := range map[string]time.Duration{"soon": 2 * time.Second, "at once": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				s := newAPIServer()
				s.setDown(true)
				m.manifests.write(newPod("web"))
				k := m.start(t, s.inCluster)
				pass(20 * time.Second)
				before := m.containers(t)["web"]
				m.manifests.write()
				pass(gap)
				m.manifests.write(newPod("web"))
				pass(time.Minute)
				if after := m.containers(t)["web"]; before == "" || after != before {
					t.Errorf("container %q became %q", before, after)
				}
				if status := k.pods()["web"].Status; status.Phase != corev1.PodRunning || !status.ContainerStatuses[0].Ready {
					t.Errorf("status is %+v, want Running and ready", status)
				}
				m.manifests.write()
				pass(time.Minute)
				m.wantRunning("web")
				s.setDown(false)
				pass(3 * time.Minute)
				m.wantRunning()
			})
		})
	}
}
