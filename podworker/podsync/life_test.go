package podsync_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestPodStartsAndIsReady(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("web")
		a.add(pod)
		pass(2 * time.Second)
		m.WantChanges(t, "RunPodSandbox default/web", "CreateContainer default/web/app", "StartContainer default/web/app")
		st := a.status(pod)
		if st.Phase != corev1.PodRunning || st.PodIP != "10.88.0.2" || st.HostIP != "10.0.0.2" || !st.ContainerStatuses[0].Ready {
			t.Errorf("status is %+v", st)
		}
		want := []string{
			`web app Normal Pulled: Container image "img.example/shell:1" already present on machine`,
			"web app Normal Created: Container created",
			"web app Normal Started: Container started",
		}
		if diff := cmp.Diff(want, a.events[1:]); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestCrashBackoff measures the time from each end of a container to the next start.
func TestCrashBackoff(t *testing.T) {
	long := 601 * time.Second
	tests := []struct {
		name string
		runs []time.Duration
		want []time.Duration
	}{
		{name: "short runs", runs: make([]time.Duration, 9), want: seconds(0, 10, 20, 40, 80, 160, 300, 300)},
		{name: "a long run starts anew", runs: []time.Duration{0, 0, 0, long, 0, 0}, want: seconds(0, 10, 20, 0, 10)},
		{name: "a run of minutes does not", runs: []time.Duration{0, 0, 0, 0, 0, 0, 0, 200 * time.Second, 0}, want: seconds(0, 10, 20, 40, 80, 160, 300, 300)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				lives := []runtimetest.Life{}
				for _, run := range tt.runs {
					lives = append(lives, runtimetest.Exits(run, 1))
				}
				m.SetLives("app", append(lives, runtimetest.Life{})...)
				a := m.agent(t)
				a.add(newPod("crasher"))
				pass(20 * time.Minute)
				got := gaps(m, tt.runs)
				for i, want := range tt.want {
					if i >= len(got) || got[i] < want || got[i] > want+2*time.Second {
						t.Errorf("gaps are %v, want %v and at most 2 s more", got, tt.want)
						break
					}
				}
			})
		})
	}
}

func seconds(list ...int) []time.Duration {
	var out []time.Duration
	for _, s := range list {
		out = append(out, time.Duration(s)*time.Second)
	}
	return out
}

// gaps returns the times between the end of one run and the start of the next.
func gaps(m *machine, runs []time.Duration) []time.Duration {
	var out []time.Duration
	calls := m.Calls("StartContainer")
	for i := 1; i < len(calls); i++ {
		ended := calls[i-1].Ended.Add(runs[i-1])
		out = append(out, calls[i].Began.Sub(ended))
	}
	return out
}

func TestStatusWhileBackingOff(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(0, 3))
		a := m.agent(t)
		pod := newPod("crasher")
		a.add(pod)
		pass(20 * time.Second) // starts at 0, about 1 and about 12
		c := a.status(pod).ContainerStatuses[0]
		if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" ||
			c.State.Waiting.Message != "back-off 20s restarting failed container=app pod=crasher_default(uid-crasher)" {
			t.Errorf("state is %+v, want the back-off", c.State)
		}
		if c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 3 || c.RestartCount != 2 {
			t.Errorf("last state is %+v with %d restarts, want exit code 3 and 2", c.LastTerminationState, c.RestartCount)
		}
		if got := len(a.told("BackOff")); got != 2 {
			t.Errorf("%d back-off events, want one per wait: %q", got, a.events)
		}
	})
}

func TestRemovedPodStopsDuringBackoff(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(0, 1))
		a := m.agent(t)
		pod := newPod("crasher")
		a.add(pod)
		pass(30 * time.Second)
		a.remove(pod)
		pass(2 * time.Second)
		if st, known := a.pool.State(pod.UID); known {
			t.Errorf("the pod is still in phase %s", st.Phase)
		}
	})
}

func TestRestartPolicies(t *testing.T) {
	tests := []struct {
		name   string
		policy corev1.RestartPolicy
		code   int32
		starts int
		want   corev1.PodPhase
	}{
		{name: "never, success", policy: corev1.RestartPolicyNever, starts: 1, want: corev1.PodSucceeded},
		{name: "never, failure", policy: corev1.RestartPolicyNever, code: 2, starts: 1, want: corev1.PodFailed},
		{name: "on failure, success", policy: corev1.RestartPolicyOnFailure, starts: 1, want: corev1.PodSucceeded},
		{name: "on failure, failure", policy: corev1.RestartPolicyOnFailure, code: 2, starts: 3, want: corev1.PodRunning},
		{name: "always, success", policy: corev1.RestartPolicyAlways, starts: 3, want: corev1.PodRunning},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.SetLives("app", runtimetest.Exits(time.Second, tt.code))
				a := m.agent(t)
				pod := newPod("job")
				pod.Spec.RestartPolicy = tt.policy
				a.add(pod)
				pass(25 * time.Second)
				if got := len(m.Calls("StartContainer")); got != tt.starts {
					t.Errorf("%d starts, want %d", got, tt.starts)
				}
				if got := a.status(pod).Phase; got != tt.want {
					t.Errorf("phase is %s, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestGracefulStop(t *testing.T) {
	tests := []struct {
		name  string
		life  runtimetest.Life
		grace int64
		want  time.Duration
		code  int32
	}{
		{name: "ends in time", life: runtimetest.Life{Term: &runtimetest.Exit{After: 5 * time.Second}}, grace: 30, want: 5 * time.Second},
		{name: "ignores TERM", life: runtimetest.Life{IgnoreTerm: true}, grace: 30, want: 30 * time.Second, code: 137},
		{name: "has at least two seconds", life: runtimetest.Life{IgnoreTerm: true}, grace: 0, want: 2 * time.Second, code: 137},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.SetLives("app", tt.life)
				a := m.agent(t)
				pod := newPod("web")
				pod.Spec.TerminationGracePeriodSeconds = &tt.grace
				a.add(pod)
				pass(5 * time.Second)
				m.ForgetCalls()
				a.remove(pod)
				pass(time.Minute)
				stops := m.Calls("StopContainer")
				if len(stops) != 1 {
					t.Fatalf("%d StopContainer calls, want 1", len(stops))
				}
				if got := stops[0].Ended.Sub(stops[0].Began); got != tt.want {
					t.Errorf("it took %s to stop, want %s", got, tt.want)
				}
				end := a.status(pod).ContainerStatuses[0].State.Terminated
				if end == nil || end.ExitCode != tt.code {
					t.Errorf("container ended as %+v, want exit code %d", end, tt.code)
				}
				if got := a.told("Killing"); !slices.Equal(got, []string{"web app Normal Killing: Stopping container app"}) {
					t.Errorf("events: %q", got)
				}
			})
		})
	}
}

func TestShorterGraceReachesTheRuntime(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{IgnoreTerm: true})
		a := m.agent(t)
		pod := newPod("hurry")
		a.add(pod)
		pass(5 * time.Second)
		began := time.Now()
		a.terminate(pod, 120*time.Second)
		pass(10 * time.Second)
		a.terminate(pod, 300*time.Second) // longer: ignored
		a.terminate(pod, 5*time.Second)
		pass(time.Minute)
		end := a.status(pod).ContainerStatuses[0].State.Terminated
		if end == nil || end.FinishedAt.Sub(began) > 17*time.Second {
			t.Errorf("container ended as %+v, want within 17 s of %s", end, began)
		}
	})
}
