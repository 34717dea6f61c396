package cgroups

import (
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The bounds of cpu.shares and of a CPU quota in microseconds (kernel:
// Documentation/scheduler/sched-bwc.rst, kernel/sched/sched.h).
const (
	sharesPerCPU  = 1024
	minShares     = 2
	maxShares     = 262144
	minQuota      = 1000
	defaultPeriod = 100 * time.Millisecond
)

// Unlimited is the value of a limit that does not limit anything.
const Unlimited = -1

// Rules are what a node adds to the limits that pods ask for. The zero value is the
// kubelet's default.
type Rules struct {
	// PodPids is how many processes a pod may have; 0 or less: as many as the node.
	PodPids int64
	// NoCPUQuota leaves CPU limits unenforced.
	NoCPUQuota bool
	// CPUPeriod is the period of CPU limits; 0: 100 ms, the kernel's default.
	CPUPeriod time.Duration
	// ReserveMemory protects the memory that pods request, as the policy
	// TieredReservation asks (https://github.com/kubernetes/enhancements/issues/2570).
	// It matters with cgroup v2 only.
	ReserveMemory bool
	// Throttling is the share of the way from request to limit at which a pod with
	// resources of its own that takes memory is slowed down; 0: it is not. It matters
	// with cgroup v2 only.
	Throttling float64
}

// Limits are what holds for a control group as a whole.
type Limits struct {
	// CPUShares is the weight in units of cgroup v1, 1024 for one CPU.
	CPUShares uint64
	// CPUQuota is the CPU time in microseconds per CPUPeriod, or [Unlimited].
	CPUQuota int64
	// CPUPeriod is in microseconds.
	CPUPeriod uint64
	// Memory is in bytes, or [Unlimited].
	Memory int64
	// Pids is a number of processes, or [Unlimited].
	Pids int64
	// HugePages has limits in bytes by the size of the pages in bytes. Sizes that are
	// not in it may not be used.
	HugePages map[int64]int64
	// Unified are further files of cgroup v2.
	Unified map[string]string
}

// LimitsOf returns the limits of a pod of a class. CPU and memory are limited only if
// every container has a limit, or the pod as a whole. The weight is that of the
// pod's request: the larger of what its containers ask for together and of what its
// init containers need one after the other, and the overhead of its runtime class.
func LimitsOf(pod *corev1.Pod, class corev1.PodQOSClass, rules Rules) Limits {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	period := rules.CPUPeriod
	if period == 0 {
		period = defaultPeriod
	}
	l := Limits{
		CPUShares: minShares,
		CPUQuota:  Unlimited,
		CPUPeriod: uint64(period.Microseconds()), //nolint:gosec // not negative
		Memory:    Unlimited,
		Pids:      Unlimited,
		HugePages: hugePages(requests),
		Unified:   memoryGuards(pod, class, rules),
	}
	if rules.PodPids > 0 {
		l.Pids = rules.PodPids
	}
	if class == corev1.PodQOSBestEffort {
		return l
	}
	l.CPUShares = shares(requests.Cpu().MilliValue())
	if milli := limits.Cpu().MilliValue(); milli > 0 && !rules.NoCPUQuota && limited(pod, corev1.ResourceCPU) {
		l.CPUQuota = max(milli*period.Microseconds()/1000, minQuota)
	}
	if bytes := limits.Memory().Value(); bytes > 0 && limited(pod, corev1.ResourceMemory) {
		l.Memory = bytes
	}
	return l
}

// shares returns the weight of an amount of CPU.
func shares(milliCPU int64) uint64 {
	const perCPU = 1000
	return uint64(min(max(milliCPU*sharesPerCPU/perCPU, minShares), maxShares)) //nolint:gosec // bounded
}

// limited reports whether a resource of the pod is limited as a whole: by a limit of
// the pod, or of every container in it.
func limited(pod *corev1.Pod, name corev1.ResourceName) bool {
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		if q := pod.Spec.Resources.Limits[name]; !q.IsZero() {
			return true
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q := list[i].Resources.Limits[name]; q.IsZero() {
				return false
			}
		}
	}
	return true
}

// hugePages returns the amounts of huge pages in a list of resources by their size.
func hugePages(list corev1.ResourceList) map[int64]int64 {
	var out map[int64]int64
	for name, q := range list {
		text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
		if !ok {
			continue
		}
		if size, err := resource.ParseQuantity(text); err == nil {
			if out == nil {
				out = map[int64]int64{}
			}
			out[size.Value()] += q.Value()
		}
	}
	return out
}

// The files of cgroup v2 that protect memory and that slow down who takes it
// (kernel: Documentation/admin-guide/cgroup-v2.rst).
const (
	memoryMin  = "memory.min"
	memoryLow  = "memory.low"
	memoryHigh = "memory.high"
)

// memoryGuards returns the settings of cgroup v2 that protect memory of a pod, and
// slow it down before it reaches its limit. Each is there: it takes back what another
// agreement or a former configuration has left.
func memoryGuards(pod *corev1.Pod, class corev1.PodQOSClass, rules Rules) map[string]string {
	out := map[string]string{memoryMin: "0", memoryLow: "0", memoryHigh: "max"}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	request := requests.Memory().Value()
	if rules.ReserveMemory && request > 0 {
		file := memoryLow
		if class == corev1.PodQOSGuaranteed {
			file = memoryMin
		}
		out[file] = strconv.FormatInt(request, 10)
	}
	if rules.Throttling > 0 && resourcehelper.IsPodLevelResourcesSet(pod) && limited(pod, corev1.ResourceMemory) {
		limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
		if high := throttleAt(request, limits.Memory().Value(), rules.Throttling); high > request {
			out[memoryHigh] = strconv.FormatInt(high, 10)
		}
	}
	return out
}

// throttleAt returns the use of memory at which a pod is slowed down: a share of the way
// from its request to its limit, in whole pages
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2570-memory-qos).
// It is 0 if request and limit leave no way.
func throttleAt(request, limit int64, share float64) int64 {
	if limit <= request {
		return 0
	}
	page := float64(os.Getpagesize())
	return int64(math.Floor((float64(request)+float64(limit-request)*share)/page) * page)
}
