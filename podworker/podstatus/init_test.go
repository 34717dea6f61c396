package podstatus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// layered has an init container i, a sidecar s and a regular container a.
func layered(policy corev1.RestartPolicy) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := newPod(policy, "a")
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}, {Name: "s", RestartPolicy: &always}}
	return pod
}

// brief prints the states of all containers of a status, as in "i=terminated 0
// Completed ready".
func brief(st *corev1.PodStatus) []string {
	var out []string
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for _, c := range list {
			text := c.Name + "="
			switch {
			case c.State.Running != nil:
				text += "running"
			case c.State.Terminated != nil:
				text += fmt.Sprintf("terminated %d %s", c.State.Terminated.ExitCode, c.State.Terminated.Reason)
			case c.State.Waiting != nil:
				text += "waiting " + c.State.Waiting.Reason
			}
			if t := c.LastTerminationState.Terminated; t != nil {
				text += fmt.Sprintf(" after %d %s", t.ExitCode, t.Reason)
			}
			if c.RestartCount > 0 {
				text += fmt.Sprintf(" restarts %d", c.RestartCount)
			}
			if c.Started != nil && *c.Started {
				text += " started"
			}
			if c.Ready {
				text += " ready"
			}
			out = append(out, text)
		}
	}
	return out
}

func TestPodWithInitContainers(t *testing.T) {
	always, never := corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	created := podstatus.Instance{Name: "i", ID: "i1", SandboxID: "s0", State: podstatus.StateCreated}
	tests := []struct {
		name    string
		policy  corev1.RestartPolicy
		list    []podstatus.Instance
		waiting map[string]podstatus.Waiting
		stopped bool
		phase   corev1.PodPhase
		want    []string
	}{
		{
			name: "nothing yet", policy: always, phase: corev1.PodPending,
			want: []string{"i=waiting PodInitializing", "s=waiting PodInitializing", "a=waiting PodInitializing"},
		},
		{
			name: "created", policy: always, list: []podstatus.Instance{created}, phase: corev1.PodPending,
			want: []string{"i=waiting ContainerCreating", "s=waiting PodInitializing", "a=waiting PodInitializing"},
		},
		{
			name: "initializing", policy: always, list: []podstatus.Instance{running("i", "i1")}, phase: corev1.PodPending,
			want: []string{"i=running started", "s=waiting PodInitializing", "a=waiting PodInitializing"},
		},
		{
			name: "failed, to be tried again", policy: always, list: []podstatus.Instance{exited("i", "i1", 1)},
			waiting: map[string]podstatus.Waiting{"i": {Reason: "CrashLoopBackOff"}}, phase: corev1.PodPending,
			want: []string{"i=waiting CrashLoopBackOff after 1 Error", "s=waiting PodInitializing", "a=waiting PodInitializing"},
		},
		{
			name: "failed for good", policy: never, list: []podstatus.Instance{exited("i", "i1", 1)}, phase: corev1.PodFailed,
			want: []string{"i=terminated 1 Error", "s=waiting PodInitializing", "a=waiting PodInitializing"},
		},
		{
			name: "sidecar runs", policy: always, list: []podstatus.Instance{exited("i", "i1", 0), running("s", "s1")}, phase: corev1.PodPending,
			want: []string{"i=terminated 0 Completed ready", "s=running started ready", "a=waiting PodInitializing"},
		},
		{
			name: "all run", policy: always, list: []podstatus.Instance{exited("i", "i1", 0), running("s", "s1"), running("a", "a1")}, phase: corev1.PodRunning,
			want: []string{"i=terminated 0 Completed ready", "s=running started ready", "a=running started ready"},
		},
		{
			name: "a late reason does not reopen what is done", policy: always, list: []podstatus.Instance{exited("i", "i1", 0), running("s", "s1"), running("a", "a1")},
			waiting: map[string]podstatus.Waiting{"i": {Reason: "ErrImagePull"}}, phase: corev1.PodRunning,
			want: []string{"i=terminated 0 Completed ready", "s=running started ready", "a=running started ready"},
		},
		{
			name: "record of the init container collected", policy: always, list: []podstatus.Instance{running("s", "s1"), running("a", "a1")}, phase: corev1.PodRunning,
			want: []string{"i=terminated 0 Completed ready", "s=running started ready", "a=running started ready"},
		},
		{
			name: "sidecar crashed beside a running container", policy: always, phase: corev1.PodRunning,
			list:    []podstatus.Instance{exited("i", "i1", 0), exited("s", "s1", 2), running("a", "a1")},
			waiting: map[string]podstatus.Waiting{"s": {Reason: "CrashLoopBackOff"}},
			want:    []string{"i=terminated 0 Completed ready", "s=waiting CrashLoopBackOff after 2 Error", "a=running started ready"},
		},
		{
			name: "regular one done, sidecar runs on", policy: never, phase: corev1.PodRunning,
			list: []podstatus.Instance{exited("i", "i1", 0), running("s", "s1"), exited("a", "a1", 0)},
			want: []string{"i=terminated 0 Completed ready", "s=running started ready", "a=terminated 0 Completed"},
		},
		{
			name: "sidecar that ends badly does not count", policy: never, phase: corev1.PodSucceeded,
			list: []podstatus.Instance{exited("i", "i1", 0), exited("s", "s1", 137), exited("a", "a1", 0)},
			want: []string{"i=terminated 0 Completed ready", "s=terminated 137 Error", "a=terminated 0 Completed"},
		},
		{
			name: "stopped while initializing", policy: always, stopped: true, list: []podstatus.Instance{exited("i", "i1", 137)}, phase: corev1.PodFailed,
			want: []string{"i=terminated 137 Error", "s=waiting PodInitializing", "a=waiting PodInitializing"},
		},
		{
			name: "stopped before anything", policy: always, stopped: true, phase: corev1.PodFailed,
			want: []string{"i=terminated 137 ContainerStatusUnknown", "s=waiting PodInitializing", "a=waiting PodInitializing"},
		},
		{
			name: "stopped between sidecar and the rest", policy: always, stopped: true, phase: corev1.PodFailed,
			list: []podstatus.Instance{exited("i", "i1", 0), exited("s", "s1", 0)},
			want: []string{"i=terminated 0 Completed ready", "s=terminated 0 Completed", "a=waiting PodInitializing"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := podstatus.Compute(podstatus.Input{Pod: layered(tt.policy), Observed: seen(tt.list...), Waiting: tt.waiting, Stopped: tt.stopped, Now: noon})
			if st.Phase != tt.phase {
				t.Errorf("phase is %s, want %s", st.Phase, tt.phase)
			}
			if diff := cmp.Diff(tt.want, brief(&st)); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStaleSandboxProvesNothing: a container that was left in the sandbox before this
// one does not show that the init containers of this one are done.
func TestStaleSandboxProvesNothing(t *testing.T) {
	o := seen(podstatus.Instance{Name: "a", ID: "a1", SandboxID: "old", State: podstatus.StateCreated})
	st := podstatus.Compute(podstatus.Input{Pod: layered(corev1.RestartPolicyAlways), Observed: o, Now: noon})
	if got := brief(&st)[0]; got != "i=waiting PodInitializing" {
		t.Errorf("init container is %s, want it to wait", got)
	}
}

func TestInitializedCondition(t *testing.T) {
	before := &corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: at(-time.Hour)}}}
	startup := func(p *corev1.Pod) { p.Spec.InitContainers[1].StartupProbe = &corev1.Probe{} }
	tests := []struct {
		name     string
		edit     func(*corev1.Pod)
		list     []podstatus.Instance
		previous *corev1.PodStatus
		want     string
	}{
		{name: "nothing yet", want: "Initialized=False ContainersNotInitialized containers with incomplete status: [i s]"},
		{name: "one done", list: []podstatus.Instance{exited("i", "1", 0)}, want: "Initialized=False ContainersNotInitialized containers with incomplete status: [s]"},
		{name: "sidecar runs", list: []podstatus.Instance{exited("i", "1", 0), running("s", "2")}, want: "Initialized=True  "},
		{name: "sidecar has not started", edit: startup, list: []podstatus.Instance{exited("i", "1", 0), running("s", "2")}, want: "Initialized=False ContainersNotInitialized containers with incomplete status: [s]"},
		{name: "sidecar restarts beside a regular container", edit: startup, list: []podstatus.Instance{exited("i", "1", 0), running("s", "2"), running("a", "3")}, want: "Initialized=True  "},
		{name: "once and for all", previous: before, want: "Initialized=True  "},
		{name: "failed", list: []podstatus.Instance{exited("i", "1", 1)}, want: "Initialized=False ContainersNotInitialized containers with incomplete status: [i s]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := layered(corev1.RestartPolicyAlways)
			if tt.edit != nil {
				tt.edit(pod)
			}
			st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(tt.list...), Previous: tt.previous, Now: noon})
			if got := lines(st.Conditions)[1]; got != tt.want {
				t.Errorf("condition is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestSidecarCountsForReadiness: a pod is ready when its sidecars are, too; regular
// init containers do not matter.
func TestSidecarCountsForReadiness(t *testing.T) {
	pod := layered(corev1.RestartPolicyAlways)
	pod.Spec.InitContainers[1].ReadinessProbe = &corev1.Probe{}
	st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(exited("i", "1", 0), running("s", "2"), running("a", "3")), Now: noon})
	if got, want := lines(st.Conditions)[3], "ContainersReady=False ContainersNotReady containers with unready status: [s]"; got != want {
		t.Errorf("condition is %q, want %q", got, want)
	}
}

func TestEphemeralContainers(t *testing.T) {
	pod := newPod(corev1.RestartPolicyNever, "a")
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "sh"}}}
	st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(running("a", "1"), running("debug", "2")), Now: noon})
	if diff := cmp.Diff([]string{"a=running started ready", "debug=running"}, brief(&st)); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	st = podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(exited("a", "1", 0), exited("debug", "2", 1)), Now: noon})
	if st.Phase != corev1.PodSucceeded {
		t.Errorf("phase is %s, want Succeeded: an ephemeral container does not count", st.Phase)
	}
	last := st
	st = podstatus.Compute(podstatus.Input{Pod: pod, Previous: &last, Observed: seen(exited("a", "1", 0)), Now: noon})
	if got := brief(&st)[1]; got != "debug=terminated 1 Error" {
		t.Errorf("after its record was collected it is %q, want its end to stay", got)
	}
}

func TestRestartOfAllContainers(t *testing.T) {
	own := corev1.ContainerRestartPolicyNever
	pod := newPod(corev1.RestartPolicyNever, "a", "b")
	pod.Spec.Containers[0].RestartPolicy = &own
	pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(exited("a", "1", 42), running("b", "2")), Now: noon})
	if st.Phase != corev1.PodRunning || lines(st.Conditions)[5] != "AllContainersRestarting=False  " {
		t.Errorf("phase %s, conditions %q, want Running and not restarting yet", st.Phase, lines(st.Conditions))
	}
	last := st
	st = podstatus.Compute(podstatus.Input{Pod: pod, Previous: &last, Observed: seen(), RestartingAll: true, Now: noon})
	want := []string{
		"a=waiting RestartingAllContainers after 137 RestartingAllContainers restarts 1",
		"b=waiting RestartingAllContainers after 137 RestartingAllContainers restarts 1",
	}
	if diff := cmp.Diff(want, brief(&st)); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if got := lines(st.Conditions)[5]; st.Phase != corev1.PodRunning || got != "AllContainersRestarting=True RestartAllContainersStarted container exited with restart policy rule" {
		t.Errorf("phase %s, condition %q", st.Phase, got)
	}
	last = st
	st = podstatus.Compute(podstatus.Input{Pod: pod, Previous: &last, Observed: seen(running("a", "3"), running("b", "4")), Now: noon})
	if diff := cmp.Diff([]string{"a=running after 137 RestartingAllContainers restarts 1 started ready", "b=running after 137 RestartingAllContainers restarts 1 started ready"}, brief(&st)); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if got := lines(st.Conditions)[5]; !strings.HasPrefix(got, "AllContainersRestarting=False") {
		t.Errorf("condition is %q, want it over", got)
	}
}

// TestPendingWhileASidecarStartsAgain: once the sandbox was made anew, a pod whose
// containers have run before is pending until its sidecars have started.
func TestPendingWhileASidecarStartsAgain(t *testing.T) {
	pod := layered(corev1.RestartPolicyAlways)
	pod.Spec.InitContainers[1].StartupProbe = &corev1.Probe{}
	in := podstatus.Input{
		Pod: pod, Observed: seen(exited("i", "1", 0), running("s", "2"), exited("a", "3", 137)),
		Waiting: map[string]podstatus.Waiting{"a": {Reason: "PodInitializing"}}, Now: noon,
	}
	if st := podstatus.Compute(in); st.Phase != corev1.PodPending {
		t.Errorf("phase is %s, want Pending", st.Phase)
	}
	pod.Spec.InitContainers[1].StartupProbe = nil
	if st := podstatus.Compute(in); st.Phase != corev1.PodRunning {
		t.Errorf("phase is %s once it has started, want Running", st.Phase)
	}
}
