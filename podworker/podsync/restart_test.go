package podsync_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestAgentRestartRestartsNothing(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("web")
		a.add(pod)
		pass(time.Minute)
		before := a.status(pod)
		a.stop()
		m.ForgetCalls()
		b := m.agent(t)
		b.add(newPod("web"))
		pass(5 * time.Minute)
		m.WantChanges(t)
		after := b.status(pod).ContainerStatuses[0]
		if after.ContainerID != before.ContainerStatuses[0].ContainerID || !after.Ready || after.RestartCount != 0 {
			t.Errorf("container is %+v, want the one before", after)
		}
	})
}

func TestBackoffSurvivesAgentRestart(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(0, 1))
		a := m.agent(t)
		a.add(newPod("crasher"))
		pass(100 * time.Second) // the fourth wait, of 80 s, began at about 73 s
		if got := len(m.Calls("StartContainer")); got != 5 {
			t.Fatalf("%d starts before the restart, want 5", got)
		}
		a.stop()
		b := m.agent(t)
		b.add(newPod("crasher"))
		pass(45 * time.Second)
		if got := len(m.Calls("StartContainer")); got != 5 {
			t.Errorf("%d starts while the wait went on, want still 5", got)
		}
		pass(15 * time.Second)
		if got := len(m.Calls("StartContainer")); got != 6 {
			t.Errorf("%d starts after the wait, want 6", got)
		}
	})
}

// TestTakeOverFromAnotherKubelet has containers without a trace of this project.
func TestTakeOverFromAnotherKubelet(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		foreign := m.config().Node
		foreign.Instance = ""
		m.preloadRunning(t, pod, &foreign, 3)
		m.ForgetCalls()
		a := m.agent(t)
		a.add(pod)
		pass(5 * time.Minute)
		m.WantChanges(t)
		st := a.status(pod)
		if st.Phase != corev1.PodRunning || st.ContainerStatuses[0].RestartCount != 3 {
			t.Errorf("status is %+v, want running with 3 restarts", st)
		}
	})
}

// preload runs a pod's sandbox and creates its containers as an earlier process did.
func (m *machine) preload(t *testing.T, pod *corev1.Pod, node *podspec.Node, attempt uint32) (sandbox string, containers []string) {
	t.Helper()
	c := m.Client(t)
	spec, err := podspec.Sandbox(pod, node, podspec.SandboxRun{})
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err = c.RunPodSandbox(t.Context(), spec.Config, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pod.Spec.Containers {
		ct, err := podspec.Container(pod, &pod.Spec.Containers[i], node, podspec.Run{Attempt: attempt, Backoff: -1})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ct.Paths {
			if err := os.MkdirAll(filepath.Dir(p.Path), 0o755); err != nil {
				t.Fatal(err)
			}
			if p.Kind == podspec.OwnDir {
				err = os.MkdirAll(p.Path, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		id, err := c.CreateContainer(t.Context(), sandbox, ct.Config, spec.Config)
		if err != nil {
			t.Fatal(err)
		}
		containers = append(containers, id)
	}
	return sandbox, containers
}

// preloadRunning is preload with the containers started.
func (m *machine) preloadRunning(t *testing.T, pod *corev1.Pod, node *podspec.Node, attempt uint32) (sandbox string, containers []string) {
	t.Helper()
	sandbox, containers = m.preload(t, pod, node, attempt)
	for _, id := range containers {
		if err := m.Client(t).StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	return sandbox, containers
}

func TestDeadSandboxIsReplaced(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("web")
		a.add(pod)
		pass(5 * time.Second)
		old := m.Calls("CreateContainer")[0].Request.(*runtimeapi.CreateContainerRequest).GetPodSandboxId()
		if err := m.Client(t).StopPodSandbox(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		m.ForgetCalls()
		pass(5 * time.Second)
		m.WantChanges(t, "StopPodSandbox default/web", "RunPodSandbox default/web", "CreateContainer default/web/app", "StartContainer default/web/app")
		st := a.status(pod)
		if st.Phase != corev1.PodRunning || st.ContainerStatuses[0].RestartCount != 1 || st.PodIP != "10.88.0.3" {
			t.Errorf("status is %+v, want running after one restart, with the new address", st)
		}
		if got := a.told("SandboxChanged"); len(got) != 1 {
			t.Errorf("events: %q", a.events)
		}
	})
}

// TestNothingOfADeadSandboxIsStarted has what a power cut leaves: a dead sandbox with
// a container that was never started, has exited or seems to run.
func TestNothingOfADeadSandboxIsStarted(t *testing.T) {
	tests := []struct {
		name    string
		started bool
		dead    bool // else it only says so
	}{
		{name: "created", dead: true},
		{name: "exited", started: true, dead: true},
		{name: "running", started: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				pod := newPod("reboot")
				node := m.config().Node
				load := m.preload
				if tt.started {
					load = m.preloadRunning
				}
				sandbox, ids := load(t, pod, &node, 0)
				if tt.dead {
					if err := m.Client(t).StopPodSandbox(t.Context(), sandbox); err != nil {
						t.Fatal(err)
					}
				}
				m.Inject("PodSandboxStatus", runtimetest.Fault{Edit: notReady(sandbox)})
				m.ForgetCalls()
				a := m.agent(t)
				a.add(pod)
				pass(time.Minute)
				starts := m.Calls("StartContainer")
				if len(starts) != 1 || starts[0].Request.(*runtimeapi.StartContainerRequest).GetContainerId() == ids[0] {
					t.Errorf("starts: %v, want one of a new container", starts)
				}
				if got := len(m.Calls("RunPodSandbox")); got != 1 {
					t.Errorf("%d new sandboxes, want 1", got)
				}
				if got := a.status(pod).Phase; got != corev1.PodRunning {
					t.Errorf("phase is %s, want Running", got)
				}
			})
		})
	}
}

// notReady makes the runtime show one sandbox as dead.
func notReady(id string) func(protoMessage) {
	return func(m protoMessage) {
		if resp, ok := m.(*runtimeapi.PodSandboxStatusResponse); ok && resp.GetStatus().GetId() == id {
			resp.Status.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
	}
}

func TestContainerCreatedButNotStarted(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(time.Second, 4))
		m.Inject("StartContainer", runtimetest.Fault{Hang: true})
		a := m.agent(t)
		pod := newPod("once")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		a.add(pod)
		pass(time.Second)
		a.stop()
		m.ClearFaults()
		b := m.agent(t)
		b.add(pod)
		pass(time.Minute)
		if got := len(m.Calls("CreateContainer")); got != 1 {
			t.Errorf("%d containers created, want 1", got)
		}
		if st := b.status(pod); st.Phase != corev1.PodFailed || st.ContainerStatuses[0].State.Terminated.ExitCode != 4 {
			t.Errorf("status is %+v, want failed with exit code 4", st)
		}
	})
}

// TestFailedStartShowsLate has a runtime that lists a container whose start failed as
// created for a while: no second one may be made.
func TestFailedStartShowsLate(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{StartError: "exec: no such file or directory"})
		m.Inject("ContainerStatus", runtimetest.Fault{Edit: staleUntil(time.Now().Add(3 * time.Second))})
		a := m.agent(t)
		pod := newPod("no-entry")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		a.add(pod)
		pass(time.Minute)
		if got := len(m.Calls("CreateContainer")); got != 1 {
			t.Errorf("%d containers created, want 1", got)
		}
		st := a.status(pod)
		end := st.ContainerStatuses[0].State.Terminated
		if st.Phase != corev1.PodFailed || end == nil || end.ExitCode != 128 || end.Reason != "StartError" || !strings.Contains(end.Message, "no such file") {
			t.Errorf("status is %+v, want failed with the runtime's words", st)
		}
	})
}

// TestNamesReserved has a runtime that makes a sandbox or a container but loses the
// answer, and does not list it until it is asked for the same name again.
func TestNamesReserved(t *testing.T) {
	tests := []struct {
		name, create, list string
		hidden             int // lists until the second attempt is under way
	}{
		{name: "sandbox", create: "RunPodSandbox", list: "ListPodSandbox", hidden: 3},
		{name: "container", create: "CreateContainer", list: "ListContainers", hidden: 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.Inject(tt.create, runtimetest.Fault{Times: 1, Late: true, Err: status.Error(codes.DeadlineExceeded, "too late")})
				m.Inject(tt.list, runtimetest.Fault{Times: tt.hidden, Match: byUIDOnly, Edit: emptyList})
				a := m.agent(t)
				pod := newPod("web")
				a.add(pod)
				pass(30 * time.Second)
				if got := len(m.Calls(tt.create)); got != 2 {
					t.Errorf("%d times %s, want 2", got, tt.create)
				}
				if st := a.status(pod); st.Phase != corev1.PodRunning || st.ContainerStatuses[0].RestartCount != 0 {
					t.Errorf("status is %+v, want running without a restart", st)
				}
			})
		})
	}
}

func TestHungPodDelaysNoOther(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.Inject("RunPodSandbox", runtimetest.Fault{Hang: true, Match: func(req protoMessage) bool {
			return req.(*runtimeapi.RunPodSandboxRequest).GetConfig().GetMetadata().GetName() == "hung"
		}})
		a := m.agent(t)
		a.add(newPod("hung"))
		pass(time.Second)
		began := time.Now()
		pod := newPod("web")
		a.add(pod)
		pass(time.Second)
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			t.Errorf("phase is %s after %s, want Running", st.Phase, time.Since(began))
		}
		stopping := time.Now()
		a.stop()
		if got := time.Since(stopping); got > 5*time.Second {
			t.Errorf("the agent took %s to stop", got)
		}
	})
}

func TestLogNumbersGoOn(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(time.Second, 1))
		dir := filepath.Join(m.logs(), "default_logs_uid-logs", "app")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		old := map[string]string{"0.log": "first", "1.log": "second", "2.log": "third", "2.log.20240101-000000.gz": "zip", "README": "note", "x.log": "x"}
		for name, text := range old {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		a := m.agent(t)
		pod := newPod("logs")
		a.add(pod)
		pass(5 * time.Second)
		var got []string
		for _, call := range m.Calls("CreateContainer") {
			got = append(got, call.Request.(*runtimeapi.CreateContainerRequest).GetConfig().GetLogPath())
		}
		if want := []string{"app/3.log", "app/4.log"}; !slices.Equal(got, want) {
			t.Errorf("log paths are %v, want %v", got, want)
		}
		for name, text := range old {
			if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(raw) != text {
				t.Errorf("%s is %q (%v), want %q", name, raw, err, text)
			}
		}
	})
}

func TestStopIsRetriedWhileTheRuntimeFails(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		grace := int64(5)
		pod := newPod("orphan")
		pod.Spec.TerminationGracePeriodSeconds = &grace
		a.add(pod)
		pass(20 * time.Second)
		down := runtimetest.Fault{Err: status.Error(codes.Unavailable, "runtime is restarting")}
		for _, rpc := range []string{"StopContainer", "StopPodSandbox", "RemovePodSandbox"} {
			m.Inject(rpc, down)
		}
		a.remove(pod)
		pass(40 * time.Second)
		tries := len(m.Calls("StopContainer"))
		if tries < 2 || tries > 40 {
			t.Errorf("StopContainer was tried %d times in 40 s", tries)
		}
		m.ClearFaults()
		pass(time.Minute)
		if _, known := a.pool.State(pod.UID); known {
			t.Error("the pod has not finished")
		}
		if err := a.syncer.Forget(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		left, err := a.syncer.Remains(t.Context())
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	})
}

// TestPutBackRunsAgain removes a pod whose policy is Never and puts the same UID
// back: it is a new life, which runs.
func TestPutBackRunsAgain(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("job")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		a.add(pod)
		pass(5 * time.Second)
		a.remove(pod)
		a.add(newPod("job"))
		pass(5 * time.Second)
		if got := len(m.Calls("StartContainer")); got != 2 {
			t.Errorf("%d starts, want 2", got)
		}
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			t.Errorf("phase is %s, want Running", st.Phase)
		}
	})
}

// TestStrangersAreLeftAlone has the pod of another agent, of which only the runtime
// knows.
func TestStrangersAreLeftAlone(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		node := m.config().Node
		node.Instance = "agent-2"
		pod := newPod("stranger")
		m.preloadRunning(t, pod, &node, 0)
		m.ForgetCalls()
		a := m.agent(t)
		if left, err := a.syncer.Remains(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("Remains = %v, %v, want none", left, err)
		}
		list, err := a.client.ListPodSandbox(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if owner := podsync.Owner(list[0]); owner != "agent-2" {
			t.Errorf("Owner = %q", owner)
		}
		orphan, ok := podsync.Orphan(list[0])
		if !ok || orphan.UID != pod.UID || orphan.Name != pod.Name {
			t.Fatalf("Orphan = %+v, %t", orphan, ok)
		}
		if err := a.syncer.SyncTerminating(t.Context(), orphan, inOneSecond); !errors.Is(err, podsync.ErrForeign) {
			t.Errorf("SyncTerminating of a stranger's pod: %v", err)
		}
		if err := a.syncer.Forget(t.Context(), pod.UID); !errors.Is(err, podsync.ErrForeign) {
			t.Errorf("Forget of a stranger's pod: %v", err)
		}
		m.WantChanges(t)
	})
}

func TestOwnOrphanIsStopped(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		node := m.config().Node
		pod := newPod("orphan")
		m.preloadRunning(t, pod, &node, 0)
		m.ForgetCalls()
		a := m.agent(t)
		list, err := a.client.ListPodSandbox(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		orphan, _ := podsync.Orphan(list[0])
		if err := a.syncer.Forget(t.Context(), pod.UID); !errors.Is(err, podsync.ErrRunning) {
			t.Errorf("Forget of a pod that runs: %v", err)
		}
		a.pool.TerminateOrphan(orphan, inOneSecond)
		pass(10 * time.Second)
		if err := a.syncer.Forget(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		m.WantChanges(t, "StopContainer default/orphan/app", "StopPodSandbox default/orphan",
			"RemoveContainer default/orphan/app", "StopPodSandbox default/orphan", "RemovePodSandbox default/orphan")
	})
}

// TestCallsAreNotTorn removes a pod while its sandbox is being made, or while a container
// is being started: the call gets the time to end, so that the runtime and the agent agree
// on what there is.
func TestCallsAreNotTorn(t *testing.T) {
	for call, takes := range map[string]time.Duration{"RunPodSandbox": 2 * time.Second, "StartContainer": 15 * time.Second} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.Inject(call, runtimetest.Fault{Delay: takes})
				a := m.agent(t)
				pod := newPod("web")
				a.add(pod)
				pass(time.Second)
				made := len(m.Calls("CreateContainer"))
				a.remove(pod)
				pass(time.Minute)
				if calls := m.Calls(call); len(calls) != 1 || calls[0].Err != nil {
					t.Errorf("calls: %v, want one that ended well", calls)
				}
				if got := len(m.Calls("CreateContainer")); got != made {
					t.Errorf("%d containers created after the pod was removed", got-made)
				}
				if running := m.running(); len(running) != 0 {
					t.Errorf("%q run after the pod was removed", running)
				}
			})
		})
	}
}

// TestBrokenContainerCanBeStopped has a container of which the runtime cannot tell
// the status, as a bug or a damaged disk leaves it.
func TestBrokenContainerCanBeStopped(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("web")
		a.add(pod)
		pass(5 * time.Second)
		m.Inject("ContainerStatus", runtimetest.Fault{Err: status.Error(codes.Unknown, "metadata is damaged")})
		a.pool.Wake(pod.UID)
		pass(5 * time.Second)
		if st, _ := a.pool.State(pod.UID); st.Err == nil {
			t.Error("a Sync without the facts succeeded")
		}
		a.remove(pod)
		pass(time.Minute)
		if err := a.syncer.Forget(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		if left, err := a.syncer.Remains(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	})
}
