package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Rank returns the pods in the order in which they would be evicted for a signal, the
// first first: those nobody measured, then those that use more than they asked for,
// then by priority, lowest first, then by how much more than they asked for they use.
// For process IDs, of which no pod asks for any, it is priority, then those nobody
// measured, then how many there are. Of inodes every pod asks for none. Pods that are
// equal in all stay in their order. Critical pods are ranked like others: IsCritical
// says which they are.
func Rank(signal Signal, disks Disks, pods []*corev1.Pod, usages Usages) []*corev1.Pod {
	type candidate struct {
		pod            *corev1.Pod
		measured, over int // 0 or 1
		surplus        int64
		priority       int32
	}
	candidates := make([]candidate, 0, len(pods))
	for _, pod := range pods {
		c := candidate{pod: pod, priority: priority(pod)}
		if usage, ok := usages.of(pod); ok {
			c.measured = 1
			c.surplus = surplus(signal, disks, pod, usage)
		}
		if c.surplus > 0 {
			c.over = 1
		}
		candidates = append(candidates, c)
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		byMeasured, byPriority := cmp.Compare(a.measured, b.measured), cmp.Compare(a.priority, b.priority)
		bySurplus := cmp.Compare(b.surplus, a.surplus)
		if signal == PIDAvailable {
			return cmp.Or(byPriority, byMeasured, bySurplus)
		}
		return cmp.Or(byMeasured, cmp.Compare(b.over, a.over), byPriority, bySurplus)
	})
	ranked := make([]*corev1.Pod, len(candidates))
	for i, c := range candidates {
		ranked[i] = c.pod
	}
	return ranked
}

// surplus is how much more than it asked for a pod uses of what a signal is about.
func surplus(signal Signal, disks Disks, pod *corev1.Pod, usage Usage) int64 {
	switch name := signal.Resource(); name {
	case corev1.ResourceMemory:
		asked := request(pod, name)
		return usage.Memory - asked.Value()
	case corev1.ResourceEphemeralStorage:
		asked := request(pod, name)
		return usage.disk(pod, disks.counted(signal)).Bytes - asked.Value()
	case resourceInodes:
		return usage.disk(pod, disks.counted(signal)).Inodes
	default:
		return usage.Processes
	}
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// systemCritical is the priority from which on pods are never evicted: that of the
// class system-cluster-critical
// (https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods).
const systemCritical = 2_000_000_000

// IsCritical reports whether a pod is never evicted: a static pod, the mirror of one, or one of
// a system-critical priority.
func IsCritical(pod *corev1.Pod) bool {
	source, static := pod.Annotations["kubernetes.io/config.source"]
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return static && source != "api" || mirror || priority(pod) >= systemCritical
}
