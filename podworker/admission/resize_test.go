package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestResize(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: resources("cpu", "2", "memory", "1Gi", "pods", "1")}}
	tests := []struct {
		name   string
		asks   []string
		change change[corev1.Pod]
		lost   bool // the node is not known
		want   Decision
	}{
		{name: "fits", asks: []string{"cpu", "1200m", "memory", "1Gi"}, want: Decision{Verdict: Admitted}},
		{name: "less than it has", asks: []string{"cpu", "100m"}, want: Decision{Verdict: Admitted}},
		{name: "not now", asks: []string{"cpu", "1500m"}, want: Decision{
			Verdict: NotYet, Reason: "Deferred", Message: "Node didn't have enough resource: cpu, requested: 1500, used: 800, capacity: 2000",
		}},
		{name: "never", asks: []string{"cpu", "3"}, want: Decision{
			Verdict: Never, Reason: "Infeasible", Message: "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000",
		}},
		{name: "one not now, one never", asks: []string{"cpu", "1500m", "memory", "2Gi"}, want: Decision{
			Verdict: Never, Reason: "Infeasible", Message: "Node didn't have enough capacity: memory, requested: 2147483648, capacity: 1073741824",
		}},
		{name: "a critical pod preempts nobody", asks: []string{"cpu", "1500m"}, change: static, want: Decision{
			Verdict: NotYet, Reason: "Deferred", Message: "Node didn't have enough resource: cpu, requested: 1500, used: 800, capacity: 2000",
		}},
		{name: "no node", asks: nil, lost: true, want: Decision{Verdict: NotYet, Reason: "Deferred", Message: "Kubelet cannot get node info."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod("grows", tt.asks)
			if tt.change != nil {
				tt.change(pod)
			}
			on := node
			if tt.lost {
				on = nil
			}
			active := []*corev1.Pod{newPod("grows", []string{"cpu", "1"}), newPod("other", []string{"cpu", "800m"})}
			if diff := cmp.Diff(tt.want, Resize(pod, active, on)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
