package eviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Signal names what can run short on a node, as the keys of evictionHard and
// evictionSoft do. What is left of it is compared with a threshold.
type Signal string

// The signals of the kubelet
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction#eviction-signals).
// nodefs holds volumes and logs, imagefs the layers of images, containerfs what
// containers write; the last two are in bytes and inodes of whatever file system that is.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFSAvailable            Signal = "nodefs.available"
	NodeFSInodesFree           Signal = "nodefs.inodesFree"
	ImageFSAvailable           Signal = "imagefs.available"
	ImageFSInodesFree          Signal = "imagefs.inodesFree"
	ContainerFSAvailable       Signal = "containerfs.available"
	ContainerFSInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// The resources that have no name in the API: the kubelet uses these in its messages.
const (
	resourceInodes corev1.ResourceName = "inodes"
	resourcePIDs   corev1.ResourceName = "pids"
)

// signals lists all of them in the order in which they are acted upon: memory first,
// since a node without memory can do nothing about the others.
func signals() []Signal {
	return []Signal{
		MemoryAvailable, AllocatableMemoryAvailable,
		NodeFSAvailable, ImageFSAvailable, ContainerFSAvailable,
		NodeFSInodesFree, ImageFSInodesFree, ContainerFSInodesFree,
		PIDAvailable,
	}
}

func (s Signal) order() int { return slices.Index(signals(), s) }

// Resource returns what is short when the signal is: memory, ephemeral-storage,
// inodes or pids; "" for no signal.
func (s Signal) Resource() corev1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return corev1.ResourceMemory
	case NodeFSAvailable, ImageFSAvailable, ContainerFSAvailable:
		return corev1.ResourceEphemeralStorage
	case NodeFSInodesFree, ImageFSInodesFree, ContainerFSInodesFree:
		return resourceInodes
	case PIDAvailable:
		return resourcePIDs
	}
	return ""
}

// Condition returns the condition of the node that tells of it, "" for no signal.
func (s Signal) Condition() corev1.NodeConditionType {
	switch s.Resource() {
	case corev1.ResourceMemory:
		return corev1.NodeMemoryPressure
	case corev1.ResourceEphemeralStorage, resourceInodes:
		return corev1.NodeDiskPressure
	case resourcePIDs:
		return corev1.NodePIDPressure
	}
	return ""
}
