// Package allocatable computes what a node offers to pods: its capacity without
// what is reserved for Kubernetes and the system, without what hard eviction keeps
// free, and without what huge pages take from memory. The answer explains itself:
// it lists each subtraction.
//
//	result, err := allocatable.Compute(capacity, allocatable.Reserved{
//		Kube:            corev1.ResourceList{"memory": resource.MustParse("730Mi")},
//		MemoryAvailable: threshold, // of ParseThreshold("100Mi")
//	})
//
// The package does no I/O and needs no privileges; its functions may be called
// from any goroutine. It is not for scheduling, and it sets no cgroups. What
// belongs to a node's resources besides stands in its sub-packages:
//
//	capacity     reads a machine: its resources, NUMA nodes and identity
//	config       loads a KubeletConfiguration and reports what it holds in vain
//	cgroups      keeps the control groups of pods, and their limits
//	eviction     keeps the node from running dry: pressures, and who is evicted
//	topology     chooses the NUMA nodes from which a container gets what it asks for
//	pinning      gives containers CPUs and memory of their own
//	devices      hands the devices of plugins out to containers
//	podresources tells programs on the node who has which CPUs, memory and devices
package allocatable
