package eviction

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The limits of local storage, under the names that the kubelet counts evictions by.
const (
	EmptyDirLimit  = "emptydirfs.limit"
	PodLimit       = "ephemeralpodfs.limit"
	ContainerLimit = "ephemeralcontainerfs.limit"
)

// OverLimit reports whether a pod takes more of the node's disk than its own limits
// allow: the size limit of an emptyDir, the limits of its containers together, or
// that of one container. It returns which kind of limit it is and a message with the
// kubelet's text, or "" twice. The kernel holds volumes in memory to their size, so
// that they are not looked at.
func OverLimit(disks Disks, pod *corev1.Pod, usage Usage) (limit, message string) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.Medium == corev1.StorageMediumMemory {
			continue
		}
		if size := v.EmptyDir.SizeLimit; size != nil && size.Sign() > 0 && exceeds(usage.Volumes[v.Name].Bytes, *size) {
			return EmptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, size)
		}
	}
	if !limitsStorage(pod) {
		return "", ""
	}
	total, ok := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	if ok && exceeds(usage.storage(pod), total) {
		return PodLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", &total)
	}
	for _, c := range usage.Containers {
		own, ok := storageLimit(pod, c.Name)
		used := c.Logs.Bytes
		if disks == OneDisk {
			used += c.Rootfs.Bytes
		}
		if ok && exceeds(used, own) {
			return ContainerLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, &own)
		}
	}
	return "", ""
}

// Limited reports whether OverLimit can ever find a pod over a limit.
func Limited(pod *corev1.Pod) bool {
	return limitsStorage(pod) || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
	})
}

// limitsStorage reports whether any container has a limit: most pods have none.
func limitsStorage(pod *corev1.Pod) bool {
	return slices.ContainsFunc([][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers}, func(list []corev1.Container) bool {
		return slices.ContainsFunc(list, func(c corev1.Container) bool { return !c.Resources.Limits.StorageEphemeral().IsZero() })
	})
}

func exceeds(used int64, limit resource.Quantity) bool { return limit.CmpInt64(used) < 0 }

// storageLimit returns the limit of a container that runs as long as its pod does.
func storageLimit(pod *corev1.Pod, name string) (resource.Quantity, bool) {
	always := corev1.ContainerRestartPolicyAlways
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == always {
			limit := c.Resources.Limits[corev1.ResourceEphemeralStorage]
			return limit, !limit.IsZero()
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			limit := c.Resources.Limits[corev1.ResourceEphemeralStorage]
			return limit, !limit.IsZero()
		}
	}
	return resource.Quantity{}, false
}
