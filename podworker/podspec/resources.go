package podspec

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// The bounds of cpu.shares and of a CPU quota in microseconds (kernel:
// Documentation/scheduler/sched-bwc.rst, kernel/sched/sched.h).
const (
	sharesPerCPU = 1024
	minShares    = 2
	maxShares    = 262144
	minQuota     = 1000
	quotaPeriod  = 100 * time.Millisecond
)

// The OOM scores of containers by quality of service
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior).
const (
	scoreGuaranteed = -997
	scoreBestEffort = 1000
	scoreSteps      = 1000
	scoreMin        = 3
	scoreMax        = 999
)

// nodeCritical is the priority class whose pods are killed as late as Guaranteed
// ones.
const nodeCritical = "system-node-critical"

func linuxResources(pod *corev1.Pod, c *corev1.Container, node *Node) *runtimeapi.LinuxContainerResources {
	cpu := c.Resources.Limits.Cpu().MilliValue()
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          shares(c),
		MemoryLimitInBytes: c.Resources.Limits.Memory().Value(),
		OomScoreAdj:        oomScore(pod, c, node.Memory),
	}
	if node.NoCPUQuota {
		return r
	}
	period := node.CPUQuotaPeriod
	if period == 0 {
		period = quotaPeriod
	}
	r.CpuPeriod = period.Microseconds()
	if cpu > 0 {
		r.CpuQuota = max(cpu*r.CpuPeriod/1000, minQuota)
	}
	return r
}

// shares returns the weight of a container from its CPU request, which is the
// limit where none is given.
func shares(c *corev1.Container) int64 {
	cpu, ok := c.Resources.Requests[corev1.ResourceCPU]
	if !ok {
		cpu = c.Resources.Limits[corev1.ResourceCPU]
	}
	return min(max(cpu.MilliValue()*sharesPerCPU/1000, minShares), maxShares)
}

// oomScore returns the oom_score_adj of a container: the larger, the earlier the
// kernel kills it when memory is short.
func oomScore(pod *corev1.Pod, c *corev1.Container, nodeMemory int64) int64 {
	class := podstatus.QOSClass(pod)
	switch {
	case pod.Spec.PriorityClassName == nodeCritical, class == corev1.PodQOSGuaranteed:
		return scoreGuaranteed
	case class == corev1.PodQOSBestEffort:
		return scoreBestEffort
	case nodeMemory <= 0:
		return scoreMax
	}
	request, ok := c.Resources.Requests[corev1.ResourceMemory]
	if !ok {
		request = c.Resources.Limits[corev1.ResourceMemory]
	}
	score := scoreSteps - scoreSteps*request.Value()/nodeMemory
	return min(max(score, scoreMin), scoreMax)
}
