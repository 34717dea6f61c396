// Package pinning gives containers CPUs and memory of their own: the static policies of the
// kubelet's CPU manager and memory manager
// (https://kubernetes.io/docs/concepts/policy/node-resource-managers).
//
//	cpus, err := pinning.NewCPUs(pinning.CPUConfig{
//		Policy: pinning.Static, Layout: layout, Reserve: 1, Class: classOf,
//		File: "/var/lib/kubelet/" + pinning.CPUFile,
//	})
//	manager, err := topology.New(topology.Config{Providers: []topology.Provider{cpus}})
//	err = manager.Admit(ctx, pod)
//	set, exclusive := cpus.Of(pod.UID, "main") // for cpuset.cpus
//
// A container of a Guaranteed pod that asks for whole CPUs gets them to itself; all others
// share the rest, which always has the reserved CPUs. [CPUs] and [Memory] are providers of
// package topology, which says from which NUMA nodes. Who has what is kept in the kubelet's
// own files, so that containers keep it when the agent restarts, and when a kubelet takes
// over or is taken over.
//
// The package decides and remembers; it sets nothing on the machine but through the
// function given to [CPUs.Reconcile]. Its types may be used by many goroutines. No
// privileges are needed but to write the files.
package pinning
