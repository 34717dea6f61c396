package admission

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestPreemption(t *testing.T) {
	victims := func(names ...string) outcome { return outcome{Verdict: "preempt", Victims: names} }
	be := newPod("be", nil)
	small := newPod("small", []string{"cpu", "300m", "memory", "1Gi"})
	medium := newPod("medium", []string{"cpu", "700m", "memory", "1Gi"})
	precious := newPod("precious", []string{"cpu", "1", "memory", "1Gi"}, guaranteed)
	room := newNode(func(n *Node) { n.Node.Status.Allocatable["pods"] = resources("pods", "10")["pods"] })
	out := outcome{Verdict: "not yet", Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 1000, used: 2000, capacity: 2000"}
	run(t, []test{
		{name: "burstable before guaranteed", pod: newPod("p", []string{"cpu", "500m"}, static), active: []*corev1.Pod{be, small, medium, precious}, node: room, want: victims("medium")},
		{name: "the smallest that is enough", pod: newPod("p", []string{"cpu", "200m"}, static), active: []*corev1.Pod{medium, small, precious}, node: room, want: victims("small")},
		{name: "two when one is not enough", pod: newPod("p", []string{"cpu", "1"}, static), active: []*corev1.Pod{small, medium, precious}, node: room, want: victims("medium", "small")},
		{name: "guaranteed only for the rest", pod: newPod("p", []string{"cpu", "1500m"}, static), active: []*corev1.Pod{small, medium, precious}, node: room, want: victims("medium", "precious")},
		{name: "best effort for room among the pods", pod: newPod("p", nil, static), active: []*corev1.Pod{be, small, precious}, node: newNode(), want: victims("be")},
		{
			name: "a pod that is not critical waits", pod: newPod("p", []string{"cpu", "1"}), active: []*corev1.Pod{small, medium, precious}, node: room, want: out,
		},
		{
			name: "critical pods are spared", pod: newPod("p", []string{"cpu", "1"}, static), node: room, want: out,
			active: []*corev1.Pod{newPod("a", []string{"cpu", "1"}, static), newPod("b", []string{"cpu", "1"}, priority(lowestCritical))},
		},
		{
			name: "but for a higher priority", pod: newPod("p", []string{"cpu", "1"}, static, priority(2_000_001_000)), node: room, want: victims("b"),
			active: []*corev1.Pod{newPod("a", []string{"cpu", "1"}, static), newPod("b", []string{"cpu", "1"}, priority(lowestCritical))},
		},
		{
			name: "more than the node has", pod: newPod("p", []string{"cpu", "3"}, static), active: []*corev1.Pod{small, medium, precious}, node: room,
			want: outcome{Verdict: "never", Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 2000"},
		},
		{
			name: "not when something else is in the way", pod: newPod("p", []string{"cpu", "1"}, static, sysctl("vm.swappiness")), active: []*corev1.Pod{medium, precious}, node: room,
			want: outcome{Verdict: "never", Reason: "SysctlForbidden", Message: `forbidden sysctl: "vm.swappiness" not allowlisted`},
		},
		{
			name: "nor when the node shuts down", pod: newPod("p", []string{"cpu", "1"}, static), active: []*corev1.Pod{medium, precious},
			node: newNode(func(n *Node) { n.ShuttingDown = true }),
			want: outcome{Verdict: "not yet", Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down."},
		},
	})
}

func TestPropertyVictimsMakeRoom(t *testing.T) {
	amounts := []string{"0", "100m", "300m", "500m", "1", "1900m"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *corev1.Pod {
			amount := rapid.SampledFrom(amounts)
			pod := newPod(name, []string{"cpu", amount.Draw(t, "cpu"), "memory", amount.Draw(t, "memory")})
			if rapid.Bool().Draw(t, "guaranteed") {
				guaranteed(pod)
			}
			if rapid.Bool().Draw(t, "static") {
				static(pod)
			}
			return pod
		}
		node := newNode(func(n *Node) { n.Node.Status.Allocatable["memory"] = resources("memory", "2")["memory"] })
		var active []*corev1.Pod
		for _, name := range []string{"a", "b", "c", "d"}[:rapid.IntRange(0, 4).Draw(t, "pods")] {
			active = append(active, draw(name))
		}
		pod := draw("p")
		d := Admit(pod, active, node)
		for _, v := range d.Victims {
			if IsCritical(v) {
				t.Fatalf("victim %s is critical", v.Name)
			}
		}
		rest := slices.DeleteFunc(slices.Clone(active), func(p *corev1.Pod) bool { return slices.Contains(d.Victims, p) })
		after := Admit(pod, rest, node)
		if d.Verdict == Preempt && (after.Verdict != Admitted || !IsCritical(pod) || len(d.Victims) == 0) {
			t.Fatalf("without its victims the pod is %s: %s", after.Verdict, after.Message)
		}
		if d.Verdict == Never && Admit(pod, nil, node).Verdict != Never {
			t.Fatal("a pod that is never admitted is, on the empty node")
		}
		if d.Verdict == NotYet && Admit(pod, nil, node).Verdict != Admitted {
			t.Fatal("a pod that waits for others is not admitted without them")
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	node := newNode(func(n *Node) { n.Node.Status.Allocatable["pods"] = resources("pods", "110")["pods"] })
	var active []*corev1.Pod
	for i := range 109 {
		active = append(active, newPod(string(rune('a'+i)), []string{"cpu", "10m", "memory", "10Mi"}))
	}
	pod := newPod("p", []string{"cpu", "1", "memory", "10Mi"}, static)
	b.ReportAllocs()
	for b.Loop() {
		if d := Admit(pod, active, node); d.Verdict != Preempt {
			b.Fatal(d)
		}
	}
}
