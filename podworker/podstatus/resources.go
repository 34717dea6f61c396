package podstatus

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The units and smallest values of CPU weights and quotas (kernel:
// Documentation/scheduler/sched-bwc.rst, kernel/sched/sched.h). Below them, what a
// runtime reports is not what was asked for.
const (
	sharesPerCPU = 1024
	milliPerCPU  = 1000
	minShares    = 2
	minMilliCPU  = 10
)

// Granted turns what a runtime reports a container has into the amounts of the API: a
// weight in cpu.shares, a quota of CPU in microseconds per period and a limit of memory
// in bytes. Amounts that are 0 or less are not known or not limited, and are left out.
func Granted(shares, quota, period, memory int64) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if shares >= minShares {
		milli := (shares*milliPerCPU + sharesPerCPU - 1) / sharesPerCPU
		r.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
	if quota > 0 && period > 0 {
		r.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(quota*milliPerCPU/period, resource.DecimalSI)
	}
	if memory > 0 {
		r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	}
	return r
}

// grant fills in what the container was promised and, while it runs, what it has.
func grant(in *Input, c *corev1.Container, i *Instance, st *corev1.ContainerStatus) {
	st.AllocatedResources = c.Resources.Requests.DeepCopy()
	st.Resources = c.Resources.DeepCopy()
	if i.State != StateRunning {
		return
	}
	var has corev1.ResourceRequirements
	if i.Resources != nil {
		has = *i.Resources
	}
	had, differs := in.Actuated[i.ID]
	if !differs {
		had = c.Resources
	}
	actual(st.Resources.Limits, has.Limits, had.Limits, minMilliCPU)
	actual(st.Resources.Requests, has.Requests, had.Requests, minShares)
}

// actual replaces promised amounts of CPU and memory by what the runtime reports, or
// else by what the container was last given. Amounts of CPU too small for the kernel
// stay as they were asked for.
func actual(promised, has, had corev1.ResourceList, leastCPU int64) {
	if promised == nil {
		return
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		q, known := has[name]
		if !known {
			q, known = had[name]
		}
		asked := promised[name]
		switch {
		case !known:
			delete(promised, name)
		case name != corev1.ResourceCPU || q.MilliValue() > leastCPU || asked.MilliValue() > leastCPU:
			promised[name] = q.DeepCopy()
		}
	}
}

// grantPod fills in the resources that the pod as a whole has, and what is allocated to it:
// the sum of its containers where it asks for nothing as a whole.
func grantPod(in *Input, st *corev1.PodStatus) {
	if sum := resourcehelper.PodRequests(in.Pod, resourcehelper.PodResourcesOptions{}); len(sum) > 0 {
		st.AllocatedResources = sum
	}
	r := in.Pod.Spec.Resources
	if in.ActuatedPod != nil {
		r = in.ActuatedPod
	}
	if r != nil && len(r.Requests)+len(r.Limits) > 0 {
		st.Resources = r.DeepCopy()
	}
}
