package podspec

import (
	"math"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/internal/downward"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// limitSwap lets a container swap nothing, unless the node shares its swap space and
// the container is one that may have some of it
// (https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management/).
func limitSwap(r *runtimeapi.LinuxContainerResources, pod *corev1.Pod, c *corev1.Container, node *Node) {
	l := &node.Limits
	switch {
	case !l.SwapController:
	case l.CgroupV2:
		unified(r, "memory.swap.max", strconv.FormatInt(swapOf(pod, c, node), 10))
	default:
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes // memory and swap together
	}
}

// swapOf returns the swap space of a container in bytes: of the whole, the part that
// its memory request is of the node's memory.
func swapOf(pod *corev1.Pod, c *corev1.Container, node *Node) int64 {
	request := c.Resources.Requests.Memory()
	if !MaySwap(pod, c, node) || node.Memory <= 0 || request.Value() > node.Memory {
		return 0
	}
	return int64(float64(request.Value()) / float64(node.Memory) * float64(node.Limits.Swap))
}

// MaySwap reports whether a container has a part of the swap space that the node shares:
// in a Burstable pod that is not critical, with a memory request that is not its limit, and
// only with cgroup v2.
func MaySwap(pod *corev1.Pod, c *corev1.Container, node *Node) bool {
	l := &node.Limits
	return l.Swap > 0 && l.SwapController && l.CgroupV2 && !isCritical(pod) && podstatus.QOSClass(pod) == corev1.PodQOSBurstable &&
		c.Resources.Requests.Memory().Cmp(*c.Resources.Limits.Memory()) != 0
}

// critical is the priority from which on pods are critical
// (https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/).
const critical = 2_000_000_000

// isCritical reports whether a pod is one the cluster cannot do without: by its
// priority, or because a file or the agent itself brought it.
func isCritical(pod *corev1.Pod) bool {
	source := pod.Annotations["kubernetes.io/config.source"]
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= critical || source != "" && source != "api" || pod.Annotations["kubernetes.io/config.mirror"] != ""
}

// guardMemory protects memory a container asked for, and slows it down before it
// reaches its limit, if the node is set up so. Otherwise it takes back what a former
// setting may have left.
func guardMemory(r *runtimeapi.LinuxContainerResources, pod *corev1.Pod, c *corev1.Container, node *Node) {
	if !node.Limits.CgroupV2 {
		return
	}
	request := c.Resources.Requests.Memory().Value()
	switch {
	case request == 0 || !node.Limits.ReserveMemory:
		unified(r, "memory.min", "0")
		unified(r, "memory.low", "0")
	case podstatus.QOSClass(pod) == corev1.PodQOSGuaranteed:
		unified(r, "memory.min", strconv.FormatInt(request, 10))
	default:
		unified(r, "memory.low", strconv.FormatInt(request, 10))
	}
	if high := throttleAt(pod, c, node); high > request {
		unified(r, "memory.high", strconv.FormatInt(high, 10))
	}
}

// throttleAt returns the use of memory in bytes, a whole number of pages, at which a
// container is slowed down; 0 if it is not.
func throttleAt(pod *corev1.Pod, c *corev1.Container, node *Node) int64 {
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	switch {
	case node.Limits.Throttling <= 0, request == limit && request != 0:
		return 0
	case limit == 0 && resourcehelper.IsPodLevelResourcesSet(pod) && !pod.Spec.Resources.Limits.Memory().IsZero():
		return 0 // the cgroup of the pod does it
	case limit == 0:
		limit = node.Allocatable.Memory().Value()
	}
	page := float64(os.Getpagesize())
	return int64(math.Floor((float64(request)+(float64(limit)-float64(request))*node.Limits.Throttling)/page) * page)
}

// hugePageLimits returns a limit for every size of huge pages of the node: what the
// container may use, or else the pod as a whole, or else nothing.
func hugePageLimits(pod *corev1.Pod, c *corev1.Container, node *Node) []*runtimeapi.HugepageLimit {
	if len(node.Limits.HugePages) == 0 {
		return nil
	}
	wanted := map[int64]uint64{}
	take := func(list corev1.ResourceList) {
		for name, q := range list {
			if size, ok := downward.HugePageSize(name); ok {
				wanted[size] = uint64(max(q.Value(), 0)) //nolint:gosec // not negative
			}
		}
	}
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		take(pod.Spec.Resources.Limits)
	}
	take(c.Resources.Limits)
	out := make([]*runtimeapi.HugepageLimit, 0, len(node.Limits.HugePages))
	for _, size := range node.Limits.HugePages {
		out = append(out, &runtimeapi.HugepageLimit{PageSize: hugePageName(size), Limit: wanted[size]})
	}
	return out
}

// hugePageName names a size as the kernel's cgroup files do, 2097152 as 2MB
// (kernel: mm/hugetlb_cgroup.c).
func hugePageName(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for ; size >= 1024 && size%1024 == 0 && i < len(units)-1; i++ {
		size /= 1024
	}
	return strconv.FormatInt(size, 10) + units[i]
}
