package podsync_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestHookOutlivesACallForItsPod: a container is stopped for its liveness, and while its
// preStop hook runs the pod is told to end. The hook runs on, and once.
func TestHookOutlivesACallForItsPod(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.Inject("ExecSync", runtimetest.Fault{Delay: 20 * time.Second})
		p := &prober{results: map[podstatus.Probe]podstatus.Result{podstatus.Startup: podstatus.Success, podstatus.Readiness: podstatus.Success}}
		a := m.agent(t, func(c *podsync.Config) { c.Prober = p })
		pod := probed()
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
		a.add(pod)
		pass(2 * time.Second)
		p.kill(a.status(pod).ContainerStatuses[0].ContainerID)
		a.pool.Wake(pod.UID)
		pass(5 * time.Second)
		a.remove(pod)
		pass(time.Minute)
		hooks, stops := m.Calls("ExecSync"), m.Calls("StopContainer")
		if len(hooks) != 1 || len(stops) != 1 {
			t.Fatalf("%d hooks and %d stops, want one of each", len(hooks), len(stops))
		}
		if got := hooks[0].Ended.Sub(hooks[0].Began); got != 20*time.Second || stops[0].Began.Before(hooks[0].Ended) {
			t.Errorf("the hook ran for %s and the container was stopped %s after it, want all of it before", got, stops[0].Began.Sub(hooks[0].Ended))
		}
		if got := a.told("FailedPreStopHook"); len(got) > 0 {
			t.Errorf("events: %q", got)
		}
	})
}

// TestHookEndsWithItsAgent: nobody takes over a hook whose agent ends.
func TestHookEndsWithItsAgent(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.Inject("ExecSync", runtimetest.Fault{Hang: true})
		a := m.agent(t)
		pod := newPod("web")
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
		a.add(pod)
		pass(2 * time.Second)
		a.remove(pod)
		pass(5 * time.Second)
		began := time.Now()
		a.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the agent took %s to end", took)
		}
		synctest.Wait() // until the runtime has seen that nobody waits for the hook any more
		if hooks := m.Calls("ExecSync"); len(hooks) != 1 || hooks[0].Ended.IsZero() {
			t.Errorf("hooks: %v, want one that has ended", hooks)
		}
	})
}

// buggy is a runtime whose client panics when it stops a container of one pod.
type buggy struct {
	*runtime.Client
	broken string
}

func (b *buggy) StopContainer(ctx context.Context, id string, timeout int64) error {
	st, err := b.ContainerStatus(ctx, id, false)
	if err != nil {
		return err
	}
	if strings.HasPrefix(st.GetStatus().GetLabels()["io.kubernetes.pod.name"], b.broken) {
		panic("index out of range")
	}
	return b.Client.StopContainer(ctx, id, timeout)
}

// TestPanicWhileStoppingIsAnErrorOfThePod: the goroutines that stop containers report a
// bug instead of ending the agent, and whoever waits for a container does not for ever.
func TestPanicWhileStoppingIsAnErrorOfThePod(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		always := corev1.ContainerRestartPolicyAlways
		s := m.syncer(&buggy{Client: m.Client(t), broken: "bad"})
		for _, name := range []string{"bad", "good"} {
			pod := newPod(name)
			pod.Spec.InitContainers = []corev1.Container{{Name: "s", Image: shell, RestartPolicy: &always}}
			m.sync(s, pod)
			err := s.SyncTerminating(t.Context(), pod, inOneSecond)
			if name == "good" && err != nil {
				t.Error(err)
			}
			if name == "bad" && (err == nil || !strings.Contains(err.Error(), "panic: index out of range")) {
				t.Errorf("error is %v, want the panic", err)
			}
		}
	})
}

// TestContainerLostForGoodEndsWithItsSandbox has a runtime that shows a container as
// unknown whatever is done: with its sandbox it has ended.
func TestContainerLostForGoodEndsWithItsSandbox(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("lost")
		pod.Annotations = nil
		a.add(pod)
		pass(5 * time.Second)
		m.Inject("ContainerStatus", runtimetest.Fault{Edit: func(msg protoMessage) {
			if resp, ok := msg.(*runtimeapi.ContainerStatusResponse); ok {
				resp.Status.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
			}
		}})
		a.remove(pod)
		pass(10 * time.Second)
		if _, known := a.pool.State(pod.UID); known {
			t.Error("the pod has not finished")
		}
		st := a.status(pod)
		end := st.ContainerStatuses[0].State.Terminated
		if st.Phase != corev1.PodFailed || end == nil || end.ExitCode != 137 || end.Reason != "ContainerStatusUnknown" {
			t.Errorf("status is %s, %+v; want failed with a container that was lost", st.Phase, st.ContainerStatuses[0].State)
		}
		if err := a.syncer.Forget(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		if left, err := a.syncer.Remains(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	})
}

// TestStatusThatCannotBeFoundOutIsTold once for each thing that is in the way.
func TestStatusThatCannotBeFoundOutIsTold(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("web")
		a.add(pod)
		pass(5 * time.Second)
		m.Inject("ContainerStatus", runtimetest.Fault{Err: status.Error(codes.Unknown, "metadata is damaged")})
		a.pool.Wake(pod.UID)
		pass(3 * time.Minute)
		m.ClearFaults()
		pass(2 * time.Minute)
		m.Inject("ListContainers", runtimetest.Fault{Err: status.Error(codes.Unknown, "disk is full"), Match: byUIDOnly})
		pass(3 * time.Minute)
		got := a.told("FailedSync")
		if len(got) != 2 || !strings.Contains(got[0], "Warning FailedSync: error determining status: ") ||
			!strings.Contains(got[0], "metadata is damaged") || !strings.Contains(got[1], "disk is full") {
			t.Errorf("events: %q, want one for each fault", got)
		}
	})
}

// TestFailedProbeRestartsWhatEndsWell: a container that is only restarted on failure
// ends with 0 when it is stopped for a failed probe. It runs again, and the pod has not
// succeeded in between.
func TestFailedProbeRestartsWhatEndsWell(t *testing.T) {
	for _, tt := range []struct {
		policy corev1.RestartPolicy
		want   corev1.PodPhase
	}{
		{corev1.RestartPolicyOnFailure, corev1.PodRunning},
		{corev1.RestartPolicyNever, corev1.PodSucceeded},
	} {
		t.Run(string(tt.policy), func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				p := &prober{results: map[podstatus.Probe]podstatus.Result{}}
				a := m.agent(t, func(c *podsync.Config) { c.Prober = p })
				pod := newPod("well", corev1.Container{Name: "a", Image: shell, LivenessProbe: &corev1.Probe{}})
				pod.Spec.RestartPolicy = tt.policy
				m.SetLives("a", runtimetest.Life{Term: &runtimetest.Exit{After: 3 * time.Second}})
				a.add(pod)
				pass(5 * time.Second)
				p.kill(a.status(pod).ContainerStatuses[0].ContainerID)
				a.pool.Wake(pod.UID)
				pass(time.Minute)
				st := a.status(pod)
				if st.Phase != tt.want {
					t.Fatalf("the pod is %s, want %s", st.Phase, tt.want)
				}
				c := st.ContainerStatuses[0]
				if runs := c.State.Running != nil && c.RestartCount == 1; runs != (tt.want == corev1.PodRunning) {
					t.Errorf("container is %+v after %d restarts", c.State, c.RestartCount)
				}
			})
		})
	}
}

// TestFailedLivenessDuringAPull: the image of one container takes five minutes. Another
// one fails its liveness probe meanwhile: it is stopped and restarted at once.
func TestFailedLivenessDuringAPull(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		p := &prober{results: map[podstatus.Probe]podstatus.Result{}}
		a := m.agent(t, func(c *podsync.Config) {
			c.Prober = p
			c.Parts.Images = &slowImages{takes: map[string]time.Duration{"b": 5 * time.Minute}}
		})
		pod := newPod("slow", corev1.Container{Name: "a", Image: shell, LivenessProbe: &corev1.Probe{}}, corev1.Container{Name: "b", Image: shell})
		pod.Spec.TerminationGracePeriodSeconds = new(int64(10))
		m.SetLives("a", runtimetest.Life{IgnoreTerm: true}, runtimetest.Life{})
		a.add(pod)
		pass(5 * time.Second)
		p.kill(a.status(pod).ContainerStatuses[0].ContainerID)
		pass(15 * time.Second)
		st := a.status(pod).ContainerStatuses[0]
		if st.RestartCount != 1 || st.State.Running == nil || st.LastTerminationState.Terminated.ExitCode != 137 {
			t.Errorf("container a is %+v after %d restarts, want it killed and running again", st.State, st.RestartCount)
		}
		if got := a.told("Killing"); !slices.Equal(got, []string{"slow a Normal Killing: Container a failed liveness probe, will be restarted"}) {
			t.Errorf("events: %q", got)
		}
		if got := len(m.Calls("StopContainer")); got != 1 {
			t.Errorf("%d stops, want 1", got)
		}
		pass(5 * time.Minute)
		if st := a.status(pod).ContainerStatuses[1]; st.State.Running == nil {
			t.Errorf("container b is %+v after its pull, want running", st.State)
		}
	})
}
