package node_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/staticpods"
)

// TestRestartOfTheAgentTakesNothingBack: what was ready is never told to be unready
// because the agent began anew, and its condition keeps its time.
func TestRestartOfTheAgentTakesNothingBack(t *testing.T) {
	for name, age := range map[string]time.Duration{"old": 100 * time.Second, "young": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				pod := newPod("web")
				c := &pod.Spec.Containers[0]
				c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = runs("startup"), runs("readiness"), runs("liveness")
				c.ReadinessProbe.PeriodSeconds = 60
				m.manifests.write(pod)
				k := m.start(t)
				pass(age)
				was := k.ready("web")
				if was.Status != corev1.ConditionTrue {
					t.Fatalf("condition is %+v, want ready", was)
				}
				k.end()
				pass(10 * time.Second)
				m.ForgetCalls()
				k = m.start(t, func(c *node.Config) { c.Kubelet.SyncFrequency.Duration = time.Second })
				for range 700 {
					pass(100 * time.Millisecond)
					if code, _ := k.get("unix", "/pods"); code != http.StatusOK {
						continue
					}
					st := k.app("web")
					if diff := cmp.Diff(was, k.ready("web")); diff != "" || !st.Ready || !*st.Started {
						t.Fatalf("container is %+v, condition (-before +after the restart):\n%s", st, diff)
					}
				}
				if got := len(m.ran("readiness")); got == 0 {
					t.Error("readiness was not asked within its period")
				}
				if got := len(m.ran("startup")); got != 0 {
					t.Errorf("startup was asked %d times of a container that had started", got)
				}
				m.unchanged(t)
				m.commands.set(failing("readiness"))
				pass(3 * time.Minute)
				if got := k.ready("web"); got.Status != corev1.ConditionFalse {
					t.Errorf("condition is %+v after failures, want false", got)
				}
			})
		})
	}
}

// TestRestartOfTheAgentTakesNothingBackFromSidecars, which are among the init containers:
// the pod stays ready, and the startup probe that has passed is not run again.
func TestRestartOfTheAgentTakesNothingBackFromSidecars(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		always := corev1.ContainerRestartPolicyAlways
		side := *pod.Spec.Containers[0].DeepCopy()
		side.Name, side.RestartPolicy = "side", &always
		side.StartupProbe, side.ReadinessProbe = runs("startup"), runs("readiness")
		side.ReadinessProbe.PeriodSeconds = 60
		pod.Spec.InitContainers = []corev1.Container{side}
		m.manifests.write(pod)
		k := m.start(t)
		pass(100 * time.Second)
		was := k.ready("web")
		if was.Status != corev1.ConditionTrue {
			t.Fatalf("condition is %+v, want ready", was)
		}
		k.end()
		pass(10 * time.Second)
		m.ForgetCalls()
		m.commands.set(failing("startup"))
		k = m.start(t)
		for range 700 {
			pass(100 * time.Millisecond)
			if code, _ := k.get("unix", "/pods"); code != http.StatusOK {
				continue
			}
			if diff := cmp.Diff(was, k.ready("web")); diff != "" {
				t.Fatalf("condition (-before +after the restart):\n%s", diff)
			}
		}
		if got := len(m.ran("startup")); got != 0 {
			t.Errorf("startup was asked %d times of a sidecar that had started", got)
		}
		m.unchanged(t)
	})
}

// TestContainerThatDiedBetweenTwoAgents: its successor has to earn its readiness.
func TestContainerThatDiedBetweenTwoAgents(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod)
		k := m.start(t)
		pass(20 * time.Second)
		was := k.ready("web")
		k.end()
		if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 137}); err != nil {
			t.Fatal(err)
		}
		m.commands.set(failing("readiness"))
		k = m.start(t)
		pass(20 * time.Second)
		if st := k.app("web"); st.Ready || st.RestartCount != 1 || st.State.Running == nil {
			t.Errorf("successor is %+v, want running and not ready", st)
		}
		m.commands.set(nil)
		pass(6 * time.Second)
		if got := k.ready("web"); got.Status != corev1.ConditionTrue || !got.LastTransitionTime.After(was.LastTransitionTime.Time) {
			t.Errorf("condition is %+v, want true since after %s", got, was.LastTransitionTime)
		}
	})
}

// TestPodTakenOverIsAskedAtOnce: nobody kept what another kubelet knew.
func TestPodTakenOverIsAskedAtOnce(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 3600
		m.stranger(t, pod, map[string]string{staticpods.AnnotationSource: "file"})
		pass(time.Hour)
		m.manifests.write(pod)
		k := m.start(t)
		pass(3 * time.Second)
		if !k.app("web").Ready || len(m.ran("readiness")) != 1 {
			t.Errorf("container is %+v after %d probes, want it ready after one", k.app("web"), len(m.ran("readiness")))
		}
	})
}

// TestDamagedStatusFiles cost a moment of readiness and nothing else, and what was
// kept of pods that are gone goes.
func TestDamagedStatusFiles(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		pod.UID = "uid web" // to be escaped
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod, newPod("gone"))
		k := m.start(t)
		pass(10 * time.Second)
		k.end()
		dir := filepath.Join(m.root, "pod-status")
		const file = "pod-uid%20web.json"
		if diff := cmp.Diff([]string{file, "pod-uid-gone.json"}, namesIn(t, dir)); diff != "" {
			t.Fatalf("files (-want +got):\n%s", diff)
		}
		for name, content := range map[string]string{file: `{"phase":`, ".pod-x.json.1": "{}", "pod-%zz.json": "{}"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m.ForgetCalls()
		m.manifests.write(pod)
		k = m.start(t)
		pass(40 * time.Second)
		if !m.log.has("level=WARN", file) {
			t.Error("the log does not tell")
		}
		if got := m.Calls("StartContainer"); len(got) != 0 || !k.app("web").Ready {
			t.Errorf("%d containers were started, container is %+v; want it ready", len(got), k.app("web"))
		}
		if diff := cmp.Diff([]string{file}, namesIn(t, dir)); diff != "" {
			t.Errorf("files in the end (-want +got):\n%s", diff)
		}
		m.manifests.write()
		pass(40 * time.Second)
		if got := namesIn(t, dir); len(got) != 0 {
			t.Errorf("files are %q after the pod has gone, want none", got)
		}
	})
}

// TestStatusThatCannotBeNoted is told all the same.
func TestStatusThatCannotBeNoted(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		k := m.start(t)
		pass(2 * time.Second)
		dir := filepath.Join(m.root, "pod-status")
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod, newPod("other"))
		pass(10 * time.Second)
		if !k.app("web").Ready || !k.app("other").Ready {
			t.Errorf("pods are %v, want both ready", k.pods())
		}
		if got := m.log.count("level=ERROR", "could not be noted"); got != 1 {
			t.Errorf("the log tells %d times, want once", got)
		}
	})
}

// namesIn returns the names of the files in a directory.
func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
