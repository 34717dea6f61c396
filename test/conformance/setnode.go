package conformance

import "strings"

// nodeSets returns the sets of the kubelet's own suite that hold its NodeConformance, as
// far as the sets memory, devices, pinning and standalone do not and it is not left out
// (see [Omissions]), and the groups beyond it that need no hardware and no registry.
func nodeSets() []Set {
	return []Set{
		{
			Name: "node-suite", About: "life of pods and containers, of the kubelet's own suite",
			Suite: E2ENode, Nodes: 1, Part: Node,
			Focus: `^\[sig-(node|network)\] (` + strings.Join(sharedGroups(), "|") + `)`,
			Skip:  slow + `|\[Feature:CriProxy\]`,
		},
		{
			Name: "node-restarts", About: "the kubelet restarted, reconfigured and called after its pods, of the kubelet's own suite",
			Suite: E2ENode, Nodes: 1, Part: Node,
			Focus: `^\[sig-node\] (` + strings.Join(restartGroups(), "|") + `).*\[Serial\]`,
			Skip:  unfit,
		},
		{
			Name: "node-garbage", About: "old containers, images and logs, of the kubelet's own suite",
			Suite: E2ENode, Nodes: 1, Part: Node,
			Focus: `^\[sig-node\] (` + strings.Join(garbageGroups(), "|") + `).*\[Serial\]`,
			Skip:  unfit,
		},
		{
			Name: "node-images", About: "images that are removed, after which no other spec finds them, of the kubelet's own suite",
			Suite: E2ENode, Focus: `^\[sig-node\] ImageGarbageCollect `, Nodes: 1, Part: Node,
		},
	}
}

// unfit matches the labels of specs that measure, that want features that are off
// unless asked for, or a runtime that fails when told to.
const unfit = `\[Flaky\]|\[Benchmark\]|\[Feature:OffByDefault\]|\[Feature:CriProxy\]`

// sharedGroups matches the specs of test/e2e_node that share a node with others.
func sharedGroups() []string {
	return []string{
		`AppArmor `, `Container Runtime Conformance Test `, `ContainerLogPath `, `ContainerMetrics `, `Containers Lifecycle `,
		`DefaultProcMount `, `Deleted pods handling `, `Hostname of Pod `, `ImageID `, `Kubelet PodOverhead handling `,
		`Kubelet Volume Manager `, `MirrorPod`, `Mount recursive read-only `, `Pod (Host )?IPs `, `Pod SIGKILL `,
		`Pod conditions managed by Kubelet `, `ResourceMetricsAPI `, `Summary API `, `Terminate Pods `,
		`Security Context (\[LinuxOnly\] Container PID namespace sharing|when creating a pod in the host)`,
	}
}

// restartGroups matches the specs of test/e2e_node that restart the kubelet or change its
// configuration, but for those that look for processes by name on the whole machine, where
// others run as well.
func restartGroups() []string {
	return []string{
		`Cgroup reconciliation `, `Containers Lifecycle `, `CriticalPod`, `Kubelet Config `, `Kubelet Endpoints `,
		`KubletTLS `, `MirrorPod`, `OSArchLabelReconciliation `, `PodPidsLimit `, `Pods status phase `, `ReloadKubeletClientCAFileTest `,
		`Restart Kubelet `, `RestartAllContainersWithKubeletRestarts `, `SeccompDefault `, `StaticPod `, `Unknown Pods `,
	}
}

// garbageGroups matches the specs of test/e2e_node about what containers leave and take.
func garbageGroups() []string {
	return []string{
		`ContainerLogRotation`, `GarbageCollect `, `POD Resources API `, `Summary API `, `Swap `,
	}
}
