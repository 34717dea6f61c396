package shutdown

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// criticalPriority is the lowest priority of critical pods: that of the class
// system-cluster-critical (SystemCriticalPriority of k8s.io/kubernetes
// pkg/apis/scheduling; https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/).
const criticalPriority = 2_000_000_000

// Period is the time that pods get from a priority on, up to the next Period.
type Period struct {
	Priority int32
	Grace    time.Duration
}

// Periods returns what shutdownGracePeriod and shutdownGracePeriodCriticalPods of a
// KubeletConfiguration mean: critical of the total is for critical pods. It is nil, and
// there is no graceful shutdown, if total is 0 or less than critical.
func Periods(total, critical time.Duration) []Period {
	if total <= 0 || critical < 0 || critical > total {
		return nil
	}
	return []Period{{0, total - critical}, {criticalPriority, critical}}
}

// Group is the pods that end together.
type Group struct {
	Period
	Pods []*corev1.Pod
}

// Plan is the order in which pods end: one group after the other, low priorities first.
type Plan []Group

// MakePlan puts pods into the groups of their priorities. A pod below the lowest
// priority of the periods is in the first group. Groups without pods stay out: nothing
// waits for them. The order of the pods in a group is that of their names.
func MakePlan(pods []*corev1.Pod, periods []Period) Plan {
	if len(periods) == 0 {
		return nil
	}
	periods = slices.SortedFunc(slices.Values(periods), func(a, b Period) int { return cmp.Compare(a.Priority, b.Priority) })
	groups := make([]Group, len(periods))
	for i, p := range periods {
		groups[i].Period = p
	}
	for _, pod := range pods {
		i := len(groups) - 1
		for i > 0 && groups[i].Priority > priority(pod) {
			i--
		}
		groups[i].Pods = append(groups[i].Pods, pod)
	}
	groups = slices.DeleteFunc(groups, func(g Group) bool { return len(g.Pods) == 0 })
	for _, g := range groups {
		slices.SortFunc(g.Pods, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	return groups
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Need returns how long the groups of some periods take at most.
func Need(periods []Period) time.Duration {
	var sum time.Duration
	for _, p := range periods {
		sum += p.Grace
	}
	return sum
}

// Grace returns the time a pod gets to end: its own, but not more than its group's.
func (g Group) Grace(pod *corev1.Pod) time.Duration {
	// In seconds, of which the API allows more than a Duration has room for.
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && *s <= int64(g.Period.Grace/time.Second) {
		return time.Duration(*s) * time.Second
	}
	return g.Period.Grace
}

// String returns the plan with a line for each group and pod.
func (p Plan) String() string {
	var b strings.Builder
	for i, g := range p {
		fmt.Fprintf(&b, "%d. from priority %d, %s at most\n", i+1, g.Priority, g.Period.Grace)
		for _, pod := range g.Pods {
			fmt.Fprintf(&b, "   %s/%s (priority %d): %s\n", pod.Namespace, pod.Name, priority(pod), g.Grace(pod))
		}
	}
	return b.String()
}
