package node

import (
	"os"
	"path/filepath"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// describeMachine tells pods what the machine has and how their resources are limited.
func describeMachine(node *podspec.Node, r *resources, k *kubeletconfig.KubeletConfiguration) {
	if r == nil {
		return
	}
	node.Allocatable = r.Allocatable
	l := podspec.Limits{
		CgroupV2:             r.machine.Cgroups.Mode == capacity.CgroupV2,
		SingleProcessOOMKill: k.SingleProcessOOMKill != nil && *k.SingleProcessOOMKill,
		ReserveMemory:        k.MemoryReservationPolicy == kubeletconfig.TieredReservationMemoryReservationPolicy,
	}
	l.SwapController = limitsSwap(r.machine.Cgroups)
	if k.MemorySwap.SwapBehavior == "LimitedSwap" {
		l.Swap = r.machine.Swap
	}
	if k.MemoryThrottlingFactor != nil {
		l.Throttling = *k.MemoryThrottlingFactor
	}
	for _, pages := range r.machine.HugePages {
		l.HugePages = append(l.HugePages, pages.Size)
	}
	node.Limits = l
}

// limitsSwap reports whether the kernel limits swap. With cgroup v2 the root has no
// file that tells, but the cgroup of this process has, unless it is the root.
func limitsSwap(c capacity.Cgroups) bool {
	file := filepath.Join(c.Controllers["memory"], "memory.memsw.limit_in_bytes")
	if c.Mode == capacity.CgroupV2 {
		raw, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return false
		}
		group, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "0::"), "\n")
		file = filepath.Join(c.Unified, group, "memory.swap.max")
	}
	_, err := os.Stat(file)
	return err == nil
}
