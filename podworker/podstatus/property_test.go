package podstatus_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// drawPod draws a pod with up to two init containers, sidecars and rules among them,
// and one or two regular ones.
func drawPod(t *rapid.T) *corev1.Pod {
	policy := rapid.SampledFrom([]corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}).Draw(t, "policy")
	pod := newPod(policy, []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "containers")]...)
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		c := corev1.Container{Name: fmt.Sprintf("i%d", i)}
		if own := rapid.SampledFrom([]corev1.ContainerRestartPolicy{"", "Always", "Never"}).Draw(t, "own policy"); own != "" {
			c.RestartPolicy = &own
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if rapid.Bool().Draw(t, "static") {
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	}
	return pod
}

// drawObserved draws what a runtime may report of the pod: any run of any container, in
// any state, or none.
func drawObserved(t *rapid.T, pod *corev1.Pod) *podstatus.Observed {
	o := &podstatus.Observed{Sandboxes: []podstatus.Sandbox{{ID: "s0", Ready: rapid.Bool().Draw(t, "sandbox ready"), NetworkKnown: true, IPs: []string{"10.88.0.2"}, CreatedAt: noon}}}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for n := range rapid.IntRange(0, 2).Draw(t, "runs") {
				o.Containers = append(o.Containers, podstatus.Instance{
					Name: list[i].Name, ID: fmt.Sprintf("%s-%d", list[i].Name, n), SandboxID: "s0", RestartCount: int32(n), //nolint:gosec // small
					State:     podstatus.State(rapid.IntRange(0, 3).Draw(t, "state")), //nolint:gosec // small
					ExitCode:  rapid.SampledFrom([]int32{0, 1, 137}).Draw(t, "exit code"),
					CreatedAt: noon.Add(time.Duration(n) * time.Second),
				})
			}
		}
	}
	o.Sort()
	return o
}

// TestWhateverTheRuntimeReports draws lives of pods, sensible or not, and checks what
// holds of every status and from each to the next.
func TestWhateverTheRuntimeReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		var last *corev1.PodStatus
		for step := range rapid.IntRange(1, 5).Draw(t, "steps") {
			in := podstatus.Input{
				Pod: pod, Previous: last, Observed: drawObserved(t, pod), Now: noon.Add(time.Duration(step) * time.Minute),
				Stopped: rapid.IntRange(0, 4).Draw(t, "stopped") == 0, RestartingAll: rapid.IntRange(0, 4).Draw(t, "restarting") == 0,
			}
			if rapid.Bool().Draw(t, "waits") {
				in.Waiting = map[string]podstatus.Waiting{"a": {Reason: "CrashLoopBackOff"}}
			}
			st := podstatus.Compute(in)
			holds(t, pod, &in, &st)
			follows(t, last, &st)
			last = &st
		}
	})
}

// holds checks one status.
func holds(t *rapid.T, pod *corev1.Pod, in *podstatus.Input, st *corev1.PodStatus) {
	for i, c := range pod.Spec.Containers {
		if st.ContainerStatuses[i].Name != c.Name {
			t.Fatalf("status %d is of %s, want the order of the spec", i, st.ContainerStatuses[i].Name)
		}
	}
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		states := 0
		for _, set := range []bool{c.State.Waiting != nil, c.State.Running != nil, c.State.Terminated != nil} {
			if set {
				states++
			}
		}
		if states != 1 {
			t.Fatalf("%s is in %d states", c.Name, states)
		}
	}
	truth := map[corev1.PodConditionType]bool{}
	for _, c := range st.Conditions {
		if _, twice := truth[c.Type]; twice {
			t.Fatalf("condition %s is there twice", c.Type)
		}
		truth[c.Type] = c.Status == corev1.ConditionTrue
	}
	if truth[corev1.PodReady] && (!truth[corev1.ContainersReady] || !truth[corev1.PodInitialized]) {
		t.Fatalf("the pod is ready, its conditions are %v", lines(st.Conditions))
	}
	static := len(pod.Annotations) > 0
	if in.Stopped && !static && !in.Observed.Running() && !podstatus.IsTerminal(st.Phase) {
		t.Fatalf("phase of a stopped pod is %s", st.Phase)
	}
}

// follows checks what must not change from one status to the next.
func follows(t *rapid.T, last, st *corev1.PodStatus) {
	if last == nil {
		return
	}
	if podstatus.IsTerminal(last.Phase) && st.Phase != last.Phase {
		t.Fatalf("phase went from %s to %s", last.Phase, st.Phase)
	}
	for i, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if before := slices.Concat(last.InitContainerStatuses, last.ContainerStatuses)[i]; c.RestartCount < before.RestartCount {
			t.Fatalf("restarts of %s went from %d to %d", c.Name, before.RestartCount, c.RestartCount)
		}
	}
	for _, c := range st.Conditions {
		for _, before := range last.Conditions {
			if c.Type == before.Type && c.Status == before.Status && !c.LastTransitionTime.Equal(&before.LastTransitionTime) {
				t.Fatalf("condition %s changed its time and nothing else", c.Type)
			}
		}
	}
}

func BenchmarkCompute(b *testing.B) {
	pod := newPod(corev1.RestartPolicyAlways, "a", "b", "c", "d", "e")
	var list []podstatus.Instance
	for _, c := range pod.Spec.Containers {
		list = append(list, running(c.Name, c.Name))
	}
	in := podstatus.Input{Pod: pod, Observed: seen(list...), Now: noon}
	last := podstatus.Compute(in)
	in.Previous = &last
	b.ReportAllocs()
	for b.Loop() {
		if st := podstatus.Compute(in); st.Phase != corev1.PodRunning {
			b.Fatal(st.Phase)
		}
	}
}
