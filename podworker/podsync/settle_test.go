package podsync_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// phases returns the phases that a pod was ever shown in, each change once.
func (a *agent) phases(pod *corev1.Pod) []corev1.PodPhase {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []corev1.PodPhase
	for i := range a.statuses[pod.UID] {
		out = append(out, a.statuses[pod.UID][i].Phase)
	}
	return slices.Compact(out)
}

// wantAlive fails unless a pod was Pending, then Running, and nothing else.
func (a *agent) wantAlive(pod *corev1.Pod) {
	a.t.Helper()
	if phases := a.phases(pod); slices.ContainsFunc(phases, podstatus.IsTerminal) {
		a.t.Errorf("phases were %v, want none that a pod never leaves", phases)
		return
	}
	st := a.status(pod)
	if st.Phase != corev1.PodRunning || st.ContainerStatuses[0].State.Running == nil {
		a.t.Errorf("in the end the pod is %s with container %+v, want it running", st.Phase, st.ContainerStatuses[0].State)
	}
}

// polite is a life that ends with 0 when it is asked to.
func polite() runtimetest.Life { return runtimetest.Life{Term: &runtimetest.Exit{Code: 0}} }

// breakSandbox makes the runtime show the first sandbox of each pod as not ready.
func breakSandbox(m *machine) {
	m.Inject("PodSandboxStatus", runtimetest.Fault{Edit: func(resp proto.Message) {
		if st := resp.(*runtimeapi.PodSandboxStatusResponse).GetStatus(); st.GetMetadata().GetAttempt() == 0 {
			st.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
	}})
}

// TestNewSandboxEndsNoPod has the sandbox of a pod die whose container runs on and takes
// the request to stop for its end: the work is not done, whatever else goes wrong.
func TestNewSandboxEndsNoPod(t *testing.T) {
	tests := []struct {
		name  string
		init  bool
		fault func(m *machine)
	}{
		{name: "at once"},
		{name: "after an init container", init: true},
		{name: "that does not come to be at first", fault: func(m *machine) {
			m.Inject("RunPodSandbox", runtimetest.Fault{Times: 1, Err: status.Error(codes.Unavailable, "not now")})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				m.SetLives("app", polite())
				m.SetLives("i", runtimetest.Exits(500*time.Millisecond, 0))
				a := m.agent(m.t)
				pod := newPod("job")
				pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
				if tt.init {
					pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: shell}}
				}
				a.add(pod)
				pass(5 * time.Second)
				breakSandbox(m)
				if tt.fault != nil {
					tt.fault(m)
				}
				a.pool.Wake(pod.UID)
				pass(time.Minute)
				a.wantAlive(pod)
				if got := len(m.Calls("RunPodSandbox")); got < 2 {
					m.t.Errorf("%d sandboxes were asked for, want another one", got)
				}
			})
		})
	}
}

// TestStopForTheNextRunEndsNoPod stops a container so that it starts again otherwise, and
// its image takes a while: the pod has not ended meanwhile.
func TestStopForTheNextRunEndsNoPod(t *testing.T) {
	image := func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = other }
	tests := []struct {
		name   string
		policy corev1.RestartPolicy
		life   runtimetest.Life
		edit   func(pod *corev1.Pod)
	}{
		{name: "an image is edited, policy Never", policy: corev1.RestartPolicyNever, edit: image},
		{name: "an image is edited, policy OnFailure", policy: corev1.RestartPolicyOnFailure, life: polite(), edit: image},
		{name: "a resize restarts it", policy: corev1.RestartPolicyOnFailure, life: polite(), edit: func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = cpu("200m")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				m.SetLives("app", tt.life)
				a := m.agent(m.t, func(c *podsync.Config) {
					c.Parts.Images = &slowImages{takes: map[string]time.Duration{"app": 5 * time.Second}}
				})
				pod := newPod("job")
				pod.Annotations = nil
				pod.Spec.RestartPolicy = tt.policy
				pod.Spec.Containers[0].Resources = cpu("100m")
				pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
				a.add(pod)
				pass(10 * time.Second)
				edited := pod.DeepCopy()
				tt.edit(edited)
				a.add(edited)
				pass(30 * time.Second)
				a.wantAlive(pod)
				if got := len(m.Calls("StartContainer")); got != 2 {
					m.t.Errorf("%d starts, want 2", got)
				}
			})
		})
	}
}

// TestForcedEndIsTheEnd ends pods from outside whose container ends with 0 while its
// preStop hook runs: they have failed all the same, and for that reason.
func TestForcedEndIsTheEnd(t *testing.T) {
	deadline := int64(10)
	tests := []struct {
		name string
		edit func(pod *corev1.Pod)
		end  func(a *agent, pod *corev1.Pod)
		want string
	}{
		{
			name: "eviction", want: "Evicted", edit: func(*corev1.Pod) {},
			end: func(a *agent, pod *corev1.Pod) {
				a.pool.Terminate(pod.UID, podworker.Termination{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the disk is full"})
			},
		},
		{
			name: "deadline", want: "DeadlineExceeded", end: func(*agent, *corev1.Pod) {},
			edit: func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &deadline },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.Inject("ExecSync", runtimetest.Fault{Delay: 5 * time.Second})
				a := m.agent(t)
				pod := newPod("job")
				pod.Annotations = nil
				pod.Spec.RestartPolicy = corev1.RestartPolicyNever
				pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"quit"}}}}
				tt.edit(pod)
				a.add(pod)
				pass(9 * time.Second)
				tt.end(a, pod)
				pass(2 * time.Second) // the hook runs
				if err := m.Exit("default/job", "app", runtimetest.Exit{Code: 0}); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				want := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed}
				if got, st := a.phases(pod), a.status(pod); !slices.Equal(got, want) || st.Reason != tt.want {
					t.Errorf("phases were %v with reason %q in the end, want %v with %q", got, st.Reason, want, tt.want)
				}
			})
		})
	}
}

// watched is a pod of policy Never whose sidecar asks by its exit code for all containers
// to restart.
func watched() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := newPod("loop")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "watch", Image: shell, RestartPolicy: &always,
		RestartPolicyRules: []corev1.ContainerRestartRule{{
			Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
		}},
	}}
	return pod
}

// TestRestartOfAllEndsNoPod: whatever comes between the end of the container that asks
// and the new start of the others, they start again although the policy is Never.
func TestRestartOfAllEndsNoPod(t *testing.T) {
	tests := []struct {
		name  string
		edit  func(pod *corev1.Pod)
		fault func(m *machine)
		crash bool
	}{
		{name: "nothing"},
		{name: "an ephemeral container that has ended", edit: func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: shell}}}
		}},
		{name: "a stop whose answer is lost", fault: func(m *machine) {
			m.Inject("StopContainer", runtimetest.Fault{Times: 1, Late: true, Err: status.Error(codes.DeadlineExceeded, "too late")})
		}},
		{name: "a crash of the agent", crash: true, fault: func(m *machine) {
			m.Inject("RemoveContainer", runtimetest.Fault{Times: 1, Hang: true})
		}},
		{name: "a crash of the agent when some are removed", crash: true, fault: func(m *machine) {
			m.Inject("RemoveContainer", runtimetest.Fault{Times: 1, Late: true, Hang: true})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.SetLives("watch", runtimetest.Exits(10*time.Second, 88), runtimetest.Life{})
				m.SetLives("debug", runtimetest.Exits(time.Second, 0))
				a := m.agent(t)
				pod := watched()
				if tt.edit != nil {
					tt.edit(pod)
				}
				if tt.fault != nil {
					tt.fault(m)
				}
				a.add(pod)
				pass(15 * time.Second)
				if tt.crash {
					pod.Status = a.status(pod)
					a.stop()
					a = m.agent(t)
					a.add(pod)
				}
				pass(time.Minute)
				a.wantAlive(pod)
				if st := a.status(pod).ContainerStatuses[0]; st.RestartCount != 1 {
					t.Errorf("container app was restarted %d times, want once", st.RestartCount)
				}
			})
		})
	}
}
