package podspec

import (
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is what a node contributes to the configuration of every pod on it. Paths
// are on the host. The zero value makes configurations with the kubelet's default
// paths and without DNS, node addresses and limits derived from the node's size.
type Node struct {
	// Name is the host name pods on the network of the node get.
	Name string
	// IPs are the addresses of the node, the primary one first.
	IPs []string
	// Root is the directory of the agent's own data; empty: /var/lib/kubelet.
	Root string
	// Logs is the directory of the pods' logs; empty: /var/log/pods.
	Logs string
	// Memory is the size of the node's memory in bytes. It scales the OOM score of
	// Burstable pods; 0: they all get the score of a tiny request.
	Memory int64
	// Cgroups says where pods are placed in the cgroup tree.
	Cgroups Cgroups
	// DNS is how pods resolve names.
	DNS DNS
	// Hosts is the content of the node's /etc/hosts, for pods on its network.
	Hosts []byte
	// Instance is the id of the agent, which marks the sandboxes it owns.
	Instance string
	// SeccompDefault makes RuntimeDefault the seccomp profile of containers that
	// name none; false: they run unconfined.
	SeccompDefault bool
	// SELinux asks the runtime to label what belongs to the pod.
	SELinux bool
	// Masked are paths hidden from containers beside the usual ones, such as the
	// thermal_throttle directories below /sys/devices/system/cpu.
	Masked []string
	// NoCPUQuota leaves CPU limits unenforced, as cpuCFSQuota: false asks.
	NoCPUQuota bool
	// CPUQuotaPeriod is the period of CPU limits; 0: 100 ms, the kernel's default.
	CPUQuotaPeriod time.Duration
	// Allocatable is what the node can give to pods, for limits that are not set.
	Allocatable corev1.ResourceList
	// Limits says how the resources of containers are limited.
	Limits Limits
}

// Limits says how the resources of containers are limited, beyond what the API asks
// for. The zero value is a node with cgroup v1 and without swap and huge pages.
type Limits struct {
	// CgroupV2 is true on a node with cgroup v2 alone. Memory is then governed by
	// settings of the kind [runtimeapi.LinuxContainerResources.Unified].
	CgroupV2 bool
	// SingleProcessOOMKill lets the kernel kill one process of a container that is out
	// of memory, not all of them. It matters with cgroup v2 only.
	SingleProcessOOMKill bool
	// SwapController is true if the kernel limits swap. Containers then get no swap
	// unless Swap says so.
	SwapController bool
	// Swap is the swap space in bytes that is shared among containers of Burstable
	// pods in proportion to their memory requests, as LimitedSwap asks; 0: none.
	Swap int64
	// ReserveMemory protects the memory containers request, as the policy
	// TieredReservation asks (https://github.com/kubernetes/enhancements/issues/2570).
	ReserveMemory bool
	// Throttling is the share of the way from request to limit at which a container
	// that takes memory is slowed down; 0: it is not.
	Throttling float64
	// HugePages are the sizes of huge pages on the node in bytes. Containers get none
	// of those they do not ask for.
	HugePages []int64
}

// DefaultRoot and DefaultLogs are where a kubelet keeps its data and the logs of
// pods (https://kubernetes.io/docs/reference/node/kubelet-files/).
const (
	DefaultRoot = "/var/lib/kubelet"
	DefaultLogs = "/var/log/pods"
)

// PodDir returns the directory of the agent's data on one pod.
func (n *Node) PodDir(uid types.UID) string {
	return filepath.Join(or(n.Root, DefaultRoot), "pods", string(uid))
}

// LogDir returns the directory of the logs of one pod.
func (n *Node) LogDir(pod *corev1.Pod) string {
	return filepath.Join(or(n.Logs, DefaultLogs), LogDirName(pod.Namespace, pod.Name, pod.UID))
}

// LogDirName returns the name of the log directory of a pod below the log root.
func LogDirName(namespace, name string, uid types.UID) string {
	return strings.Join([]string{namespace, name, string(uid)}, "_")
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
