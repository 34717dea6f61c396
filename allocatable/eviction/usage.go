package eviction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Disk is what something takes of a file system.
type Disk struct{ Bytes, Inodes int64 }

func (d Disk) plus(o Disk) Disk { return Disk{Bytes: d.Bytes + o.Bytes, Inodes: d.Inodes + o.Inodes} }

// Usage is what a pod uses.
type Usage struct {
	Memory     int64 // working set of the whole pod, in bytes
	Processes  int64 // processes of the whole pod
	Containers []ContainerUsage
	// Volumes is what the pod's local volumes take, by name: those that end with the
	// pod, and directories of the host.
	Volumes map[string]Disk
	// Other is what the pod takes besides: its hosts file and the like.
	Other Disk
}

// ContainerUsage is what a container uses.
type ContainerUsage struct {
	Name   string
	Memory int64 // working set, in bytes
	Rootfs Disk  // what it wrote to its own layer
	Logs   Disk
}

// Usages are what pods use, by the UID of the pod. A pod that is not there was not
// measured.
type Usages map[string]Usage

func (u Usages) of(pod *corev1.Pod) (Usage, bool) {
	usage, ok := u[string(pod.UID)]
	return usage, ok
}

// disk adds up what a pod takes of a file system.
func (u Usage) disk(pod *corev1.Pod, counted part) Disk {
	var sum Disk
	for _, c := range u.Containers {
		if counted&rootfs != 0 {
			sum = sum.plus(c.Rootfs)
		}
		if counted&logs != 0 {
			sum = sum.plus(c.Logs)
		}
	}
	if counted&volumes == 0 {
		return sum
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.HostPath != nil || ephemeral(v) {
			sum = sum.plus(u.Volumes[v.Name])
		}
	}
	return sum
}

// ephemeral reports whether a volume is on the node's disk and ends with its pod.
// Secrets, tokens and the downward API are in memory.
func ephemeral(v *corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault || v.GitRepo != nil || v.ConfigMap != nil
}

// storage is what counts against a pod's limit of ephemeral-storage: all but
// directories of the host.
func (u Usage) storage(pod *corev1.Pod) int64 {
	sum := u.Other
	for _, c := range u.Containers {
		sum = sum.plus(c.Rootfs).plus(c.Logs)
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; ephemeral(v) {
			sum = sum.plus(u.Volumes[v.Name])
		}
	}
	return sum.Bytes
}

// request is what the whole pod asks for of a resource. Most pods have containers alone,
// whose requests are added up here: to add up all resources takes many times as long.
func request(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	spec := &pod.Spec
	if len(spec.InitContainers) > 0 || len(spec.Overhead) > 0 || spec.Resources != nil {
		return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})[name]
	}
	var sum resource.Quantity
	for i := range spec.Containers {
		sum.Add(spec.Containers[i].Resources.Requests[name])
	}
	return sum
}

func bytes(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }
