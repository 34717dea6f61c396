package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/pinning"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// resources checks reservations, cgroups and the managers of CPUs and memory.
func (v *validator) resources(c *kubeletv1beta1.KubeletConfiguration) {
	v.absolute("cgroupRoot", c.CgroupRoot)
	v.oneOf("cgroupDriver", c.CgroupDriver, "cgroupfs", "systemd")
	if c.SystemCgroups != "" && c.CgroupRoot == "" {
		v.fail("systemCgroups", "needs cgroupRoot")
	}
	v.reservation("kubeReserved", c.KubeReserved)
	v.reservation("systemReserved", c.SystemReserved)
	if _, err := allocatable.ParseCPUs(c.ReservedSystemCPUs); err != nil {
		v.fail("reservedSystemCPUs", "%v", err)
	}
	if c.ReservedSystemCPUs != "" && (c.SystemReservedCgroup != "" || c.KubeReservedCgroup != "") {
		v.fail("reservedSystemCPUs", "goes with neither systemReservedCgroup nor kubeReservedCgroup")
	}
	v.enforcement(c)
	if p := c.CPUCFSQuotaPeriod.Duration; p < time.Millisecond || p > time.Second {
		v.fail("cpuCFSQuotaPeriod", "is %s, must be between 1ms and 1s", p)
	}
	v.oneOf("cpuManagerPolicy", c.CPUManagerPolicy, "none", "static")
	v.oneOf("topologyManagerPolicy", c.TopologyManagerPolicy, "none", "best-effort", "restricted", "single-numa-node")
	v.oneOf("topologyManagerScope", c.TopologyManagerScope, "container", "pod")
	v.alignment(c)
	v.oneOf("memorySwap.swapBehavior", c.MemorySwap.SwapBehavior, "", "NoSwap", "LimitedSwap")
	if f := c.MemoryThrottlingFactor; f != nil && !(*f > 0 && *f <= 1) {
		v.fail("memoryThrottlingFactor", "is %g, must be more than 0 and at most 1", *f)
	}
	v.oneOf("memoryReservationPolicy", string(c.MemoryReservationPolicy), "None", "TieredReservation")
}

// alignment checks the options of the managers of CPUs and of NUMA nodes.
func (v *validator) alignment(c *kubeletv1beta1.KubeletConfiguration) {
	v.positive("cpuManagerReconcilePeriod", c.CPUManagerReconcilePeriod.Duration)
	if _, err := pinning.ParseCPUOptions(c.CPUManagerPolicyOptions); err != nil {
		v.fail("cpuManagerPolicyOptions", "%v", err)
	}
	if _, err := topology.ParseOptions(c.TopologyManagerPolicyOptions); err != nil {
		v.fail("topologyManagerPolicyOptions", "%v", err)
	}
}

// reservation checks what allocatable.Compute would refuse, with its place in the
// file.
func (v *validator) reservation(field string, amounts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, allocatable.PID:
		default:
			v.fail(at(field, name), "cannot be reserved; what can is cpu, memory, ephemeral-storage and pid")
			continue
		}
		q, err := resource.ParseQuantity(amounts[name])
		if err != nil {
			v.fail(at(field, name), "is %q, must be a quantity like 100m or 1Gi", amounts[name])
		} else if q.Sign() < 0 {
			v.fail(at(field, name), "is %s, must not be negative", amounts[name])
		}
	}
}

// enforcement checks enforceNodeAllocatable
// (https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources).
func (v *validator) enforcement(c *kubeletv1beta1.KubeletConfiguration) {
	const field = "enforceNodeAllocatable"
	list := c.EnforceNodeAllocatable
	for i, entry := range list {
		name := fmt.Sprintf("%s[%d]", field, i)
		v.oneOf(name, entry, "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible", "none")
		if slices.Contains(list[:i], entry) {
			v.fail(name, "is %q again", entry)
		}
		switch {
		case entry == "none" && len(list) > 1:
			v.fail(name, `is "none", which stands alone`)
		case strings.HasPrefix(entry, "system-reserved") && c.SystemReservedCgroup == "":
			v.fail(name, "is %q, which needs systemReservedCgroup", entry)
		case strings.HasPrefix(entry, "kube-reserved") && c.KubeReservedCgroup == "":
			v.fail(name, "is %q, which needs kubeReservedCgroup", entry)
		}
		if whole, ok := strings.CutSuffix(entry, "-compressible"); ok && slices.Contains(list, whole) {
			v.fail(name, "is %q, which excludes %q", entry, whole)
		}
	}
	if len(list) > 0 && !slices.Contains(list, "none") && !*c.CgroupsPerQOS {
		v.fail(field, `needs cgroupsPerQOS; write ["none"] to enforce nothing`)
	}
}

// reservedMemory checks the entries by NUMA node.
func (v *validator) reservedMemory(c *kubeletv1beta1.KubeletConfiguration) {
	v.oneOf("memoryManagerPolicy", c.MemoryManagerPolicy, kubeletv1beta1.NoneMemoryManagerPolicy, kubeletv1beta1.StaticMemoryManagerPolicy)
	type key struct {
		node int32
		name corev1.ResourceName
	}
	seen := map[key]bool{}
	for i, entry := range c.ReservedMemory {
		field := fmt.Sprintf("reservedMemory[%d]", i)
		v.notNegative(field+".numaNode", int64(entry.NumaNode))
		for _, name := range slices.Sorted(maps.Keys(entry.Limits)) {
			limit := at(field+".limits", string(name))
			if q := entry.Limits[name]; q.Sign() <= 0 {
				v.fail(limit, "is %s, must be positive", &q)
			}
			if name != corev1.ResourceMemory && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				v.fail(limit, "is no memory; there is memory and hugepages-<size>")
			}
			if k := (key{entry.NumaNode, name}); seen[k] {
				v.fail(limit, "is set again for NUMA node %d", entry.NumaNode)
			} else {
				seen[k] = true
			}
		}
	}
}

func (v *validator) images(c *kubeletv1beta1.KubeletConfiguration) {
	high, low := *c.ImageGCHighThresholdPercent, *c.ImageGCLowThresholdPercent
	v.between("imageGCHighThresholdPercent", int64(high), 0, 100)
	v.between("imageGCLowThresholdPercent", int64(low), 0, 100)
	if low >= high {
		v.fail("imageGCLowThresholdPercent", "is %d, must be less than imageGCHighThresholdPercent, %d", low, high)
	}
	v.positive("imageMinimumGCAge", c.ImageMinimumGCAge.Duration)
	v.positive("imageMaximumGCAge", c.ImageMaximumGCAge.Duration)
	if oldest, youngest := c.ImageMaximumGCAge.Duration, c.ImageMinimumGCAge.Duration; oldest > 0 && oldest <= youngest {
		v.fail("imageMaximumGCAge", "is %s, must be more than imageMinimumGCAge, %s", oldest, youngest)
	}
	v.notNegative("registryBurst", int64(c.RegistryBurst))
	v.notNegative("registryPullQPS", int64(*c.RegistryPullQPS))
	if n := c.MaxParallelImagePulls; n != nil && *n < 1 {
		v.fail("maxParallelImagePulls", "is %d, must be positive", *n)
	} else if n != nil && *n > 1 && *c.SerializeImagePulls {
		v.fail("maxParallelImagePulls", "is %d, which needs serializeImagePulls: false", *n)
	}
	policy := c.ImagePullCredentialsVerificationPolicy
	v.oneOf("imagePullCredentialsVerificationPolicy", string(policy),
		string(kubeletv1beta1.NeverVerify), string(kubeletv1beta1.NeverVerifyPreloadedImages),
		string(kubeletv1beta1.NeverVerifyAllowlistedImages), string(kubeletv1beta1.AlwaysVerify))
	if len(c.PreloadedImagesVerificationAllowlist) > 0 && policy != kubeletv1beta1.NeverVerifyAllowlistedImages {
		v.fail("preloadedImagesVerificationAllowlist", "needs imagePullCredentialsVerificationPolicy: %s", kubeletv1beta1.NeverVerifyAllowlistedImages)
	}
}

// logs checks container logs and the program's own.
func (v *validator) logs(c *kubeletv1beta1.KubeletConfiguration) {
	v.absolute("podLogsDir", c.PodLogsDir)
	if filepath.Clean(c.PodLogsDir) != c.PodLogsDir || strings.ContainsFunc(c.PodLogsDir, func(r rune) bool { return r > 127 }) {
		v.fail("podLogsDir", "is %q, must be written without detours and in ASCII", c.PodLogsDir)
	}
	if q, err := resource.ParseQuantity(c.ContainerLogMaxSize); err != nil || q.Sign() == 0 {
		v.fail("containerLogMaxSize", "is %q, must be a size like 10Mi", c.ContainerLogMaxSize)
	}
	if *c.ContainerLogMaxFiles <= 1 {
		v.fail("containerLogMaxFiles", "is %d, must be at least 2", *c.ContainerLogMaxFiles)
	}
	if *c.ContainerLogMaxWorkers < 1 {
		v.fail("containerLogMaxWorkers", "is %d, must be positive", *c.ContainerLogMaxWorkers)
	}
	if d := c.ContainerLogMonitorInterval.Duration; d < 3*time.Second {
		v.fail("containerLogMonitorInterval", "is %s, must be at least 3s", d)
	}
	v.oneOf("logging.format", c.Logging.Format, "text", "json")
	if t := c.Tracing; t != nil && t.SamplingRatePerMillion != nil {
		v.between("tracing.samplingRatePerMillion", int64(*t.SamplingRatePerMillion), 0, 1_000_000)
	}
}
