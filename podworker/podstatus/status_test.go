package podstatus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

// newPod has one container per name.
func newPod(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", Generation: 3}}
	pod.Spec.RestartPolicy = policy
	for _, n := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: n, Image: "img:1"})
	}
	return pod
}

func running(name, id string) podstatus.Instance {
	return podstatus.Instance{Name: name, ID: id, SandboxID: "s0", State: podstatus.StateRunning, CreatedAt: noon.Add(-time.Minute), StartedAt: noon.Add(-time.Minute)}
}

func exited(name, id string, code int32) podstatus.Instance {
	return podstatus.Instance{
		Name: name, ID: id, SandboxID: "s0", State: podstatus.StateExited, ExitCode: code,
		CreatedAt: noon.Add(-time.Hour), StartedAt: noon.Add(-time.Hour), FinishedAt: noon.Add(-2 * time.Minute),
	}
}

func seen(list ...podstatus.Instance) *podstatus.Observed {
	o := &podstatus.Observed{
		Sandboxes:  []podstatus.Sandbox{{ID: "s0", Ready: true, NetworkKnown: true, IPs: []string{"10.88.0.2"}, CreatedAt: noon.Add(-time.Hour)}},
		Containers: list,
	}
	o.Sort()
	return o
}

func TestPhase(t *testing.T) {
	crashing := map[string]podstatus.Waiting{"a": {Reason: "CrashLoopBackOff"}}
	api, static := map[string]string(nil), map[string]string{"kubernetes.io/config.source": "file"}
	always, onFailure, never := corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	tests := []struct {
		name    string
		policy  corev1.RestartPolicy
		source  map[string]string
		list    []podstatus.Instance
		waiting map[string]podstatus.Waiting
		stopped bool
		want    corev1.PodPhase
	}{
		{name: "nothing yet", policy: always, want: corev1.PodPending},
		{name: "one of two", policy: always, list: []podstatus.Instance{running("a", "1")}, want: corev1.PodPending},
		{name: "both run", policy: always, list: []podstatus.Instance{running("a", "1"), running("b", "2")}, want: corev1.PodRunning},
		{name: "one runs, one ended", policy: never, list: []podstatus.Instance{running("a", "1"), exited("b", "2", 1)}, want: corev1.PodRunning},
		{name: "one created", policy: never, list: []podstatus.Instance{running("a", "1"), {Name: "b", ID: "2", State: podstatus.StateCreated}}, want: corev1.PodPending},
		{name: "one runs, one backs off", policy: always, list: []podstatus.Instance{exited("a", "1", 1), running("b", "2")}, waiting: crashing, want: corev1.PodRunning},
		{name: "all back off", policy: always, list: []podstatus.Instance{exited("a", "1", 1), exited("b", "2", 1)}, waiting: crashing, want: corev1.PodRunning},
		{name: "all succeeded, never", policy: never, list: []podstatus.Instance{exited("a", "1", 0), exited("b", "2", 0)}, want: corev1.PodSucceeded},
		{name: "one failed, never", policy: never, list: []podstatus.Instance{exited("a", "1", 0), exited("b", "2", 1)}, want: corev1.PodFailed},
		{name: "one failed, on failure", policy: onFailure, list: []podstatus.Instance{exited("a", "1", 0), exited("b", "2", 1)}, want: corev1.PodRunning},
		{name: "all succeeded, on failure", policy: onFailure, list: []podstatus.Instance{exited("a", "1", 0), exited("b", "2", 0)}, want: corev1.PodSucceeded},
		{name: "all succeeded, always", policy: always, list: []podstatus.Instance{exited("a", "1", 0), exited("b", "2", 0)}, want: corev1.PodRunning},
		{name: "stopped, always", policy: always, source: api, list: []podstatus.Instance{exited("a", "1", 0), exited("b", "2", 0)}, stopped: true, want: corev1.PodSucceeded},
		{name: "stopped by force, always", policy: always, source: api, list: []podstatus.Instance{exited("a", "1", 137), exited("b", "2", 0)}, stopped: true, want: corev1.PodFailed},
		{name: "stopped, always, static", policy: always, source: static, list: []podstatus.Instance{exited("a", "1", 0), exited("b", "2", 0)}, stopped: true, want: corev1.PodRunning},
		{name: "stopped before it began", policy: always, source: api, stopped: true, want: corev1.PodFailed},
		{name: "lost, may still run", policy: never, list: []podstatus.Instance{{Name: "a", ID: "1"}, exited("b", "2", 0)}, want: corev1.PodRunning},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(tt.policy, "a", "b")
			pod.Annotations = tt.source
			st := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(tt.list...), Waiting: tt.waiting, Stopped: tt.stopped, Now: noon})
			if st.Phase != tt.want {
				t.Errorf("phase is %s, want %s", st.Phase, tt.want)
			}
		})
	}
}

func TestTerminalPhaseStays(t *testing.T) {
	previous := &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no memory"}
	st := podstatus.Compute(podstatus.Input{Pod: newPod(corev1.RestartPolicyAlways, "a"), Previous: previous, Observed: seen(running("a", "1")), Now: noon})
	if st.Phase != corev1.PodFailed || st.Reason != "Evicted" || st.Message != "no memory" {
		t.Errorf("status is %s %s %s, want as before", st.Phase, st.Reason, st.Message)
	}
}

func TestEnd(t *testing.T) {
	end := podstatus.End{
		Phase: corev1.PodFailed, Reason: "Evicted", Message: "no memory",
		Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"}},
	}
	st := podstatus.Compute(podstatus.Input{Pod: newPod(corev1.RestartPolicyAlways, "a"), Observed: seen(exited("a", "1", 0)), Stopped: true, End: end, Now: noon})
	if st.Phase != corev1.PodFailed || st.Reason != "Evicted" {
		t.Errorf("status is %s %s, want Failed Evicted", st.Phase, st.Reason)
	}
	last := st.Conditions[len(st.Conditions)-1]
	want := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", ObservedGeneration: 3, LastTransitionTime: at(0)}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

func TestContainerStates(t *testing.T) {
	newer := exited("a", "2", 3)
	newer.RestartCount, newer.Reason, newer.Message, newer.CreatedAt = 1, "OOMKilled", "bye", noon.Add(-30*time.Minute)
	terminated := func(code int32, reason, message, id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: message, StartedAt: at(-time.Hour), FinishedAt: at(-2 * time.Minute), ContainerID: "containerd://" + id,
		}}
	}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	lost := func(message, id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown", Message: message, ContainerID: id}}
	}
	ran := &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "a", ContainerID: "containerd://0", RestartCount: 4, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
	tests := []struct {
		name     string
		list     []podstatus.Instance
		waiting  map[string]podstatus.Waiting
		previous *corev1.PodStatus
		stopped  bool
		state    corev1.ContainerState
		last     corev1.ContainerState
		restarts int32
	}{
		{name: "nothing", state: waiting("ContainerCreating", "")},
		{name: "cannot be pulled", waiting: map[string]podstatus.Waiting{"a": {Reason: "ErrImagePull", Message: "no"}}, state: waiting("ErrImagePull", "no")},
		{name: "created", list: []podstatus.Instance{{Name: "a", ID: "1", State: podstatus.StateCreated}}, state: waiting("ContainerCreating", "")},
		{name: "running", list: []podstatus.Instance{running("a", "1")}, state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Minute)}}},
		{name: "running, waiting is old news", list: []podstatus.Instance{running("a", "1")}, waiting: map[string]podstatus.Waiting{"a": {Reason: "ErrImagePull"}}, state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Minute)}}},
		{name: "succeeded", list: []podstatus.Instance{exited("a", "1", 0)}, state: terminated(0, "Completed", "", "1")},
		{name: "failed", list: []podstatus.Instance{exited("a", "1", 2)}, state: terminated(2, "Error", "", "1")},
		{
			name: "failed twice", list: []podstatus.Instance{newer, exited("a", "1", 2)}, restarts: 1,
			state: terminated(3, "OOMKilled", "bye", "2"), last: terminated(2, "Error", "", "1"),
		},
		{
			name: "backs off", list: []podstatus.Instance{newer, exited("a", "1", 2)}, restarts: 1,
			waiting: map[string]podstatus.Waiting{"a": {Reason: "CrashLoopBackOff"}},
			state:   waiting("CrashLoopBackOff", ""), last: terminated(3, "OOMKilled", "bye", "2"),
		},
		{name: "unknown to the runtime", list: []podstatus.Instance{{Name: "a", ID: "1"}}, state: lost("The container could not be located when the pod was terminated", "containerd://1")},
		{
			name: "lost while it ran", previous: ran, restarts: 5, state: waiting("ContainerCreating", ""),
			last: lost("The container could not be located when the pod was deleted.  The container used to be Running", "containerd://0"),
		},
		{name: "never started, stopped", stopped: true, state: lost("The container could not be located when the pod was terminated", "")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := podstatus.Compute(podstatus.Input{
				Pod: newPod(corev1.RestartPolicyAlways, "a"), Observed: seen(tt.list...), Waiting: tt.waiting, Previous: tt.previous,
				Stopped: tt.stopped, RuntimeName: "containerd", Now: noon,
			})
			c := st.ContainerStatuses[0]
			if diff := cmp.Diff(tt.state, c.State); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.last, c.LastTerminationState); diff != "" {
				t.Errorf("last state (-want +got):\n%s", diff)
			}
			if c.RestartCount != tt.restarts {
				t.Errorf("%d restarts, want %d", c.RestartCount, tt.restarts)
			}
		})
	}
}

func TestGrantedResources(t *testing.T) {
	pod := newPod(corev1.RestartPolicyAlways, "a")
	c := &pod.Spec.Containers[0]
	c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}}
	got := podstatus.Compute(podstatus.Input{Pod: pod, Observed: seen(running("a", "1")), Now: noon}).ContainerStatuses[0]
	disabled := corev1.RecursiveReadOnlyDisabled
	want := corev1.ContainerStatus{
		AllocatedResources: c.Resources.Requests, Resources: &c.Resources,
		VolumeMounts: []corev1.VolumeMountStatus{{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &disabled}},
	}
	if diff := cmp.Diff(want.AllocatedResources, got.AllocatedResources) + cmp.Diff(want.Resources, got.Resources) + cmp.Diff(want.VolumeMounts, got.VolumeMounts); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
}

func TestMessagesShareALimit(t *testing.T) {
	var list []podstatus.Instance
	names := []string{"a", "b", "c", "d"}
	for _, n := range names {
		in := exited(n, n, 1)
		in.Message = strings.Repeat("x", 4096)
		list = append(list, in)
	}
	st := podstatus.Compute(podstatus.Input{Pod: newPod(corev1.RestartPolicyNever, names...), Observed: seen(list...), Now: noon})
	for _, c := range st.ContainerStatuses {
		if got := len(c.State.Terminated.Message); got != 3072 {
			t.Errorf("message of %s has %d bytes, want a fourth of 12 KiB", c.Name, got)
		}
	}
	st = podstatus.Compute(podstatus.Input{Pod: newPod(corev1.RestartPolicyNever, names[:3]...), Observed: seen(list[:3]...), Now: noon})
	if got := len(st.ContainerStatuses[0].State.Terminated.Message); got != 4096 {
		t.Errorf("message has %d bytes, want all 4096", got)
	}
}

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l["cpu"] = resource.MustParse(cpu)
		}
		if memory != "" {
			l["memory"] = resource.MustParse(memory)
		}
		return l
	}
	tests := []struct {
		name string
		list []corev1.ResourceRequirements
		want corev1.PodQOSClass
	}{
		{name: "none", list: make([]corev1.ResourceRequirements, 2), want: corev1.PodQOSBestEffort},
		{name: "zero", list: []corev1.ResourceRequirements{{Requests: list("0", "0")}}, want: corev1.PodQOSBestEffort},
		{name: "limits", list: []corev1.ResourceRequirements{{Limits: list("1", "1Gi")}}, want: corev1.PodQOSGuaranteed},
		{name: "equal requests", list: []corev1.ResourceRequirements{{Limits: list("1", "1Gi"), Requests: list("1000m", "1024Mi")}}, want: corev1.PodQOSGuaranteed},
		{name: "smaller request", list: []corev1.ResourceRequirements{{Limits: list("1", "1Gi"), Requests: list("500m", "")}}, want: corev1.PodQOSBurstable},
		{name: "one resource", list: []corev1.ResourceRequirements{{Limits: list("1", "")}}, want: corev1.PodQOSBurstable},
		{name: "one container", list: []corev1.ResourceRequirements{{Limits: list("1", "1Gi")}, {}}, want: corev1.PodQOSBurstable},
		{name: "only a request", list: []corev1.ResourceRequirements{{Requests: list("", "1Gi")}}, want: corev1.PodQOSBurstable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyAlways)
			for _, r := range tt.list {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: r})
			}
			if got := podstatus.QOSClass(pod); got != tt.want {
				t.Errorf("QOSClass = %s, want %s", got, tt.want)
			}
		})
	}
}

// TestPhaseOfAPodInHand shows containers that have ended and start again, which their
// states do not tell.
func TestPhaseOfAPodInHand(t *testing.T) {
	onFailure, never := corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	tests := []struct {
		name   string
		policy corev1.RestartPolicy
		edit   func(in *podstatus.Input)
		want   corev1.PodPhase
	}{
		{name: "ended", policy: never, edit: func(*podstatus.Input) {}, want: corev1.PodSucceeded},
		{name: "ended amidst a change", policy: never, edit: func(in *podstatus.Input) { in.Busy = true }, want: corev1.PodRunning},
		{name: "ended amidst a change of a pod that was pending", policy: never, want: corev1.PodPending, edit: func(in *podstatus.Input) {
			in.Busy, in.Previous = true, &corev1.PodStatus{Phase: corev1.PodPending}
		}},
		{name: "had failed before the change", policy: never, want: corev1.PodFailed, edit: func(in *podstatus.Input) {
			in.Busy, in.Previous = true, &corev1.PodStatus{Phase: corev1.PodFailed}
		}},
		{name: "evicted, not stopped yet", policy: never, want: corev1.PodRunning, edit: func(in *podstatus.Input) {
			in.Busy, in.End = true, podstatus.End{Phase: corev1.PodFailed}
		}},
		{name: "stopped to start again", policy: onFailure, edit: func(in *podstatus.Input) { in.Again = map[string]bool{"a0": true} }, want: corev1.PodRunning},
		{name: "another run was", policy: onFailure, edit: func(in *podstatus.Input) { in.Again = map[string]bool{"a1": true} }, want: corev1.PodSucceeded},
		{name: "the policy forbids it", policy: never, edit: func(in *podstatus.Input) { in.Again = map[string]bool{"a0": true} }, want: corev1.PodSucceeded},
		{name: "all start anew", policy: never, edit: func(in *podstatus.Input) { in.RestartingAll = true }, want: corev1.PodRunning},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := podstatus.Input{Pod: newPod(tt.policy, "a"), Observed: seen(exited("a", "a0", 0)), RuntimeName: "containerd", Now: noon}
			tt.edit(&in)
			if got := podstatus.Compute(in).Phase; got != tt.want {
				t.Errorf("phase is %s, want %s", got, tt.want)
			}
		})
	}
}
