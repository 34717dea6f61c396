package podspec

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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

// Resources returns the limits and weights of a container, as a runtime wants them
// when it creates the container and when it resizes it.
func Resources(pod *corev1.Pod, c *corev1.Container, node *Node) *runtimeapi.LinuxContainerResources {
	cpu, memory := effectiveLimit(pod, c, corev1.ResourceCPU), effectiveLimit(pod, c, corev1.ResourceMemory)
	request, ok := c.Resources.Requests[corev1.ResourceCPU]
	if !ok {
		request = cpu
	}
	r := linuxResources(request, cpu, memory, node)
	r.OomScoreAdj = oomScore(pod, c, node.Memory)
	r.HugepageLimits = hugePageLimits(pod, c, node)
	limitSwap(r, pod, c, node)
	guardMemory(r, pod, c, node)
	return r
}

// SandboxResources returns what a sandbox costs by itself, and what its containers
// may use together. Runtimes that run pods in virtual machines size them by it.
func SandboxResources(pod *corev1.Pod, node *Node) (overhead, resources *runtimeapi.LinuxContainerResources) {
	overhead = &runtimeapi.LinuxContainerResources{}
	if pod.Spec.Overhead != nil {
		overhead = linuxResources(*pod.Spec.Overhead.Cpu(), *pod.Spec.Overhead.Cpu(), *pod.Spec.Overhead.Memory(), node)
	}
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options)
	request, ok := requests[corev1.ResourceCPU]
	if !ok {
		request = limits[corev1.ResourceCPU]
	}
	return overhead, linuxResources(request, limits[corev1.ResourceCPU], limits[corev1.ResourceMemory], node)
}

// effectiveLimit is the limit of a container, or else that of the pod as a whole.
func effectiveLimit(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName) resource.Quantity {
	limit := c.Resources.Limits[name]
	if limit.IsZero() && resourcehelper.IsPodLevelResourcesSet(pod) {
		return pod.Spec.Resources.Limits[name]
	}
	return limit
}

// linuxResources translates a CPU request and the limits of CPU and memory.
func linuxResources(request, cpu, memory resource.Quantity, node *Node) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          shares(request),
		MemoryLimitInBytes: memory.Value(),
	}
	if node.Limits.CgroupV2 && !node.Limits.SingleProcessOOMKill {
		unified(r, "memory.oom.group", "1")
	}
	if node.NoCPUQuota {
		return r
	}
	period := node.CPUQuotaPeriod
	if period == 0 {
		period = quotaPeriod
	}
	r.CpuPeriod = period.Microseconds()
	if milli := cpu.MilliValue(); milli > 0 {
		r.CpuQuota = max(milli*r.CpuPeriod/1000, minQuota)
	}
	return r
}

// unified sets a file of the cgroup v2 of a container.
func unified(r *runtimeapi.LinuxContainerResources, file, value string) {
	if r.Unified == nil {
		r.Unified = map[string]string{}
	}
	r.Unified[file] = value
}

// shares returns the weight of a CPU request.
func shares(cpu resource.Quantity) int64 {
	return min(max(cpu.MilliValue()*sharesPerCPU/1000, minShares), maxShares)
}
