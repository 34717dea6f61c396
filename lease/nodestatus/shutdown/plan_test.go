package shutdown_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
)

// pod returns one with a priority and a grace period in seconds; negative means none.
func pod(name string, priority int32, grace int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	p.Spec.Priority = &priority
	if grace >= 0 {
		p.Spec.TerminationGracePeriodSeconds = &grace
	}
	return p
}

func TestPlanEndsPodsByPriority(t *testing.T) {
	const forever = 9_999_999_999 // seconds, which are more than a Duration can hold
	nothing := pod("unset", 0, 5)
	nothing.Spec.Priority = nil
	pods := []*corev1.Pod{
		pod("critical", 2_000_000_000, 60), pod("node-critical", 2_000_001_000, 3), pod("web", 0, 30),
		pod("batch", -10, -1), pod("just-below", 1_999_999_999, 2), nothing, pod("forever", 0, forever),
	}
	got := shutdown.MakePlan(pods, shutdown.Periods(30*time.Second, 10*time.Second)).String()
	want := `1. from priority 0, 20s at most
   ns/batch (priority -10): 20s
   ns/forever (priority 0): 20s
   ns/just-below (priority 1999999999): 2s
   ns/unset (priority 0): 5s
   ns/web (priority 0): 20s
2. from priority 2000000000, 10s at most
   ns/critical (priority 2000000000): 10s
   ns/node-critical (priority 2000001000): 3s
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestPlanOfManyPeriods(t *testing.T) {
	periods := []shutdown.Period{{1000, 120 * time.Second}, {100_000, 10 * time.Second}, {0, 60 * time.Second}, {10_000, 180 * time.Second}}
	pods := []*corev1.Pod{pod("a", 100_000, -1), pod("b", 9999, -1), pod("c", 0, -1), pod("d", 200_000, -1), pod("e", -5, -1)}
	got := shutdown.MakePlan(pods, periods).String()
	want := `1. from priority 0, 1m0s at most
   ns/c (priority 0): 1m0s
   ns/e (priority -5): 1m0s
2. from priority 1000, 2m0s at most
   ns/b (priority 9999): 2m0s
3. from priority 100000, 10s at most
   ns/a (priority 100000): 10s
   ns/d (priority 200000): 10s
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if got, want := shutdown.Need(periods), 370*time.Second; got != want {
		t.Errorf("Need = %s, want %s", got, want)
	}
}

func TestPeriods(t *testing.T) {
	tests := []struct {
		name            string
		total, critical time.Duration
		want            []shutdown.Period
	}{
		{"off", 0, 0, nil},
		{"critical exceeds", time.Second, 2 * time.Second, nil},
		{"none for critical", time.Second, 0, []shutdown.Period{{0, time.Second}, {2_000_000_000, 0}}},
		{"both", 30 * time.Second, 10 * time.Second, []shutdown.Period{{0, 20 * time.Second}, {2_000_000_000, 10 * time.Second}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, shutdown.Periods(tt.total, tt.critical)); diff != "" {
				t.Errorf("periods (-want +got):\n%s", diff)
			}
		})
	}
	if plan := shutdown.MakePlan([]*corev1.Pod{pod("a", 0, 1)}, nil); plan != nil {
		t.Errorf("plan without periods: %v", plan)
	}
}

// Each pod is in exactly one group, none before one of lower priority that is in an
// earlier group, and no pod has more time than its group.
func TestPlanProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var periods []shutdown.Period
		for _, p := range rapid.SliceOfNDistinct(rapid.Int32Range(-20, 20), 1, 5, rapid.ID).Draw(rt, "priorities") {
			periods = append(periods, shutdown.Period{Priority: p, Grace: time.Duration(rapid.IntRange(0, 60).Draw(rt, "grace")) * time.Second})
		}
		var pods []*corev1.Pod
		for _, p := range rapid.SliceOf(rapid.Int32Range(-30, 30)).Draw(rt, "pods") {
			pods = append(pods, pod("p", p, int64(rapid.IntRange(-1, 90).Draw(rt, "own"))))
		}
		seen := 0
		highest := int32(-100)
		for _, g := range shutdown.MakePlan(pods, periods) {
			top := highest
			for _, p := range g.Pods {
				seen++
				if *p.Spec.Priority < highest {
					rt.Errorf("priority %d after %d", *p.Spec.Priority, highest)
				}
				top = max(top, *p.Spec.Priority)
				if grace := g.Grace(p); grace > g.Period.Grace || grace < 0 {
					rt.Errorf("grace %s in a group of %s", grace, g.Period.Grace)
				}
			}
			highest = top
		}
		if seen != len(pods) {
			rt.Errorf("%d pods in groups, want %d", seen, len(pods))
		}
	})
}
