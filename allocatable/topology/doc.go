// Package topology decides from which NUMA nodes the containers of a pod get their
// CPUs, their memory and their devices, so that these are close to one another: the
// topology manager of the kubelet
// (https://kubernetes.io/docs/tasks/administer-cluster/topology-manager).
//
//	m, err := topology.New(topology.Config{
//		Machine:   machine,
//		Policy:    topology.SingleNode,
//		Providers: []topology.Provider{cpus, memory, devices},
//	})
//	if err := m.Admit(ctx, pod); err != nil {
//		reason, message := topology.Reason(err) // "TopologyAffinityError", …
//	}
//
// Whoever has something that belongs to NUMA nodes is a [Provider]: it hints at the
// nodes from which it could fulfil a request. [Merge] finds the nodes that suit all of
// them, and the providers allocate from these. The package keeps no resources itself; it
// is not for scheduling, and it sets nothing on the machine.
//
// [Merge] and the types of this package are pure. A [Manager] may be used by many
// goroutines; it admits one pod at a time. No privileges are needed.
package topology
