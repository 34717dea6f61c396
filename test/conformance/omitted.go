package conformance

// Omission is specs of [Conformance] or [NodeConformance] that are in no set.
type Omission struct {
	Suite Suite
	// Specs are the full names.
	Specs []string
	// Reason says why.
	Reason string
}

// Omissions returns what is left out of [NodeConformance], and of the [Conformance] of
// sig-node, sig-network, sig-storage and sig-apps. Specs of [E2ENode] that [E2E] has, too,
// are not among them.
func Omissions() []Omission {
	return []Omission{
		{
			E2E,
			[]string{
				`[sig-apps] ControllerRevision should manage the lifecycle of a ControllerRevision [Conformance] [Serial]`,
				`[sig-apps] CronJob should not schedule jobs when suspended [Conformance] [Slow]`,
				`[sig-apps] CronJob should not schedule new jobs when ForbidConcurrent [Conformance] [Slow]`,
				`[sig-apps] Daemon set should list and delete a collection of DaemonSets [Conformance] [Serial]`,
				`[sig-apps] Daemon set should retry creating failed daemon pods [Conformance] [Serial]`,
				`[sig-apps] Daemon set should rollback without unnecessary restarts [Conformance] [Serial]`,
				`[sig-apps] Daemon set should run and stop complex daemon [Conformance] [Serial]`,
				`[sig-apps] Daemon set should run and stop simple daemon [Conformance] [Serial]`,
				`[sig-apps] Daemon set should update pod when spec was updated and update strategy is RollingUpdate [Conformance] [Serial]`,
				`[sig-apps] Daemon set should verify changes to a daemon set status [Conformance] [Serial]`,
				`[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Burst scaling should run to completion even with unhealthy pods [Conformance] [Slow]`,
				`[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Scaling should happen in predictable order and halt if any stateful pod is unhealthy [Conformance] [Slow]`,
				`[sig-node] NoExecuteTaintManager Multiple Pods evicts pods with minTolerationSeconds [Conformance] [Disruptive] [Serial]`,
				`[sig-node] NoExecuteTaintManager Single Pod removing taint cancels eviction [Conformance] [Disruptive] [Serial]`,
			},
			"they look at controllers, which are upstream's with each kit, and want the cluster for themselves or minutes each",
		},
		{
			E2E,
			[]string{
				`[sig-node] Variable Expansion should verify that a failing subpath expansion can be modified during the lifecycle of a container [Conformance] [Slow]`,
				`[sig-storage] EmptyDir wrapper volumes should not cause race condition when used for configmaps [Conformance] [Serial]`,
			},
			"slow, or for a cluster of their own, and no NodeConformance: there is no set of such",
		},
		{
			E2ENode,
			[]string{
				`[sig-node] Container Runtime Conformance Test container runtime conformance blackbox test when running a container with a new image should be able to pull from private registry with credential provider [Disruptive] [NodeConformance] [Serial]`,
			},
			"it pulls from a registry of upstream's, and there is none",
		},
		{
			E2ENode,
			[]string{
				`[sig-node] Device Plugin [Feature:DevicePlugin] DevicePlugin Can schedule a pod with a restartable init container [Disruptive] [NodeConformance] [Serial]`,
			},
			"its group takes the node for itself and restarts the kubelet under a device plugin: there is no set of it",
		},
		{
			E2ENode,
			[]string{
				`[sig-node] POD Resources API [Feature:PodResourcesAPI] without SRIOV devices in the system with CPU manager Static policy with reserved system CPUs should return the expected responses [Flaky] [NodeConformance] [Serial]`,
			},
			"upstream itself calls it flaky",
		},
	}
}
