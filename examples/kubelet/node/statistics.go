package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/server/stats"
	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// newStatistics returns what tells how much the node and its pods use.
func newStatistics(n *Node) (*stats.Collector, error) {
	k := n.cfg.Kubelet
	cfg := stats.Config{
		Node:    n.cfg.Name,
		Pods:    n.measuredPods,
		Runtime: lateStats{n},
		Volumes: n.volumeUsage,
		Machine: newMachineFacts(n).describe,
		Disk:    n.cfg.Root,
		Ages:    stats.Ages{Volumes: k.VolumeStatsAggPeriod.Duration},
		Log:     n.log,
	}
	if n.cfg.Cgroups == nil {
		reader, err := newGroupReader()
		if err != nil {
			n.log.Warn("control groups are not read; the container runtime is asked what its containers use", "err", err)
		} else {
			cfg.Groups, cfg.System = reader, n.systemGroups(reader)
		}
	}
	return stats.New(cfg)
}

// measure has the node's API tell how much is used, and what is counted.
func (n *Node) measure() error {
	var err error
	if n.statistics, err = newStatistics(n); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	n.api.stats, n.api.metrics = n.statistics.Handler(), newMetricsPages(n, n.statistics)
	n.api.requests = n.cfg.metrics.requests.began
	return nil
}

// newGroupReader reads the control groups of this machine.
func newGroupReader() (*cgroupstat.Reader, error) {
	mounts, err := cgroups.Mounted()
	if err != nil {
		return nil, err
	}
	hierarchies := make([]cgroupstat.Hierarchy, len(mounts))
	for i, m := range mounts {
		hierarchies[i] = cgroupstat.Hierarchy(m)
	}
	return cgroupstat.New(hierarchies)
}

// systemGroups returns what names the groups of daemons and of all pods: the latter once it
// is known who makes it and how it is called, the others as far as the configuration names
// them.
func (n *Node) systemGroups(reader *cgroupstat.Reader) func() []stats.System {
	k := n.cfg.Kubelet
	own := k.KubeletCgroups
	if own == "" {
		own, _ = reader.Of(os.Getpid()) // without it, nothing is told of this process
	}
	began := time.Now()
	return func() []stats.System {
		var list []stats.System
		if a := n.agent.get(); a != nil && a.cgroups != nil {
			list = append(list, made(reader, statsapi.SystemContainerPods, a.cgroups.PodsGroup()))
		}
		if own != "" && own != "/" {
			list = append(list, stats.System{Name: statsapi.SystemContainerKubelet, Group: own, Started: began})
		}
		if k.SystemCgroups != "" {
			list = append(list, made(reader, statsapi.SystemContainerMisc, k.SystemCgroups))
		}
		return list
	}
}

// made is a group that is as old as it is. One that is not there is left out later.
func made(reader *cgroupstat.Reader, name, group string) stats.System {
	at, _ := reader.Made(group)
	return stats.System{Name: name, Group: group, Started: at}
}

// measuredPods are the pods that run on the runtime. What it names is taken from there; of
// a pod that nobody wants any more only the runtime knows what it uses.
func (n *Node) measuredPods() []stats.Pod {
	a := n.agent.get()
	if a == nil || a.snapshot.Load() == nil {
		return nil
	}
	snap := a.snapshot.Load()
	host := &podspec.Node{Logs: n.cfg.Kubelet.PodLogsDir}
	out := make([]stats.Pod, 0, len(snap.Pods))
	for uid, seen := range snap.Pods {
		pod, ok := a.measuredPod(uid, seen)
		if !ok {
			continue
		}
		if wanted, known := a.catalog.pod(uid); known {
			pod.Logs, pod.HasClaims = host.LogDir(wanted), hasClaims(wanted)
			if a.cgroups != nil {
				pod.Group = a.cgroups.Group(wanted)
			}
		}
		out = append(out, pod)
	}
	return out
}

// measuredPod is a pod as the runtime shows it; false if nothing of it runs.
func (a *agent) measuredPod(uid types.UID, seen *runtime.Pod) (stats.Pod, bool) {
	for _, s := range seen.Sandboxes {
		if s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
			continue
		}
		pod := stats.Pod{
			UID: uid, Namespace: s.GetMetadata().GetNamespace(), Name: s.GetMetadata().GetName(),
			Created: time.Unix(0, s.GetCreatedAt()), Sandbox: s.GetId(), SandboxImage: a.pictures.sandboxImage,
		}
		for _, c := range seen.Containers {
			if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || c.GetPodSandboxId() != s.GetId() {
				continue
			}
			image := c.GetImage().GetUserSpecifiedImage()
			if image == "" {
				image = c.GetImage().GetImage()
			}
			pod.Containers = append(pod.Containers, stats.Container{
				ID: c.GetId(), Name: c.GetMetadata().GetName(), Image: image, Created: time.Unix(0, c.GetCreatedAt()),
			})
		}
		return pod, true
	}
	return stats.Pod{}, false
}

func hasClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if claimOf(pod, &pod.Spec.Volumes[i]) != "" {
			return true
		}
	}
	return false
}

// claimOf is the claim of a volume, which for a generic ephemeral one is named after the
// pod; empty if it has none.
func claimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// volumeUsage measures the volumes of a pod. What could be measured stands beside the error.
func (n *Node) volumeUsage(ctx context.Context, uid types.UID) ([]stats.Volume, error) {
	a := n.agent.get()
	if a == nil {
		return nil, errNoRuntime
	}
	pod, ok := a.catalog.pod(uid)
	if !ok {
		return nil, nil
	}
	used, err := a.volumes.manager.Usage(ctx, uid)
	var out []stats.Volume
	for i := range used {
		out = append(out, measuredVolume(&used[i], "", !used[i].Memory))
	}
	if a.volumes.storage == nil {
		return out, err
	}
	driven, driverErr := a.volumes.storage.Usage(ctx, uid)
	claims := map[string]string{}
	for i := range pod.Spec.Volumes {
		claims[pod.Spec.Volumes[i].Name] = claimOf(pod, &pod.Spec.Volumes[i])
	}
	for i := range driven {
		out = append(out, measuredVolume(&driven[i], claims[driven[i].Volume], false))
	}
	return out, errors.Join(err, driverErr)
}

func measuredVolume(u *volume.Usage, claim string, local bool) stats.Volume {
	number := func(n int64) uint64 { return uint64(max(n, 0)) } //nolint:gosec // not negative
	return stats.Volume{
		Name: u.Volume, Claim: claim, Local: local,
		Used: number(u.Bytes), Size: number(u.Space.Size), Available: number(u.Space.Available),
		InodesUsed: number(u.Inodes), Inodes: number(u.Space.Inodes), InodesFree: number(u.Space.InodesFree),
	}
}

// lateStats is the runtime once it has answered.
type lateStats struct{ node *Node }

// ListContainerStats implements stats.Runtime.
func (l lateStats) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	if a := l.node.agent.get(); a != nil {
		return a.runtime.ListContainerStats(ctx, filter)
	}
	return nil, errNoRuntime
}

// ImageFsInfo implements stats.Runtime.
func (l lateStats) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	if a := l.node.agent.get(); a != nil {
		return a.runtime.ImageFsInfo(ctx)
	}
	return nil, errNoRuntime
}

// machineFacts describe the machine to whoever measures it.
type machineFacts struct {
	node           *Node
	booted         time.Time
	cores, sockets int
}

func newMachineFacts(n *Node) *machineFacts {
	f := &machineFacts{node: n}
	if raw, err := os.ReadFile("/proc/stat"); err == nil {
		f.booted = bootTime(string(raw))
	}
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		f.cores, f.sockets = coresOf(string(raw))
	}
	return f
}

// bootTime reads the line btime of /proc/stat, proc_stat(5); the zero time if there is none.
func bootTime(stat string) time.Time {
	for line := range strings.Lines(stat) {
		rest, ok := strings.CutPrefix(line, "btime ")
		if n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64); ok && err == nil {
			return time.Unix(n, 0)
		}
	}
	return time.Time{}
}

// coresOf counts cores and packages in /proc/cpuinfo; architectures that do not tell of them
// have one package with as many cores as CPUs.
func coresOf(cpuinfo string) (cores, sockets int) {
	seenCores, seenSockets := map[string]bool{}, map[string]bool{}
	cpus, socket := 0, ""
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "processor":
			cpus++
		case "physical id":
			socket = value
			seenSockets[socket] = true
		case "core id":
			seenCores[socket+" "+value] = true
		}
	}
	if len(seenCores) == 0 {
		return cpus, min(cpus, 1)
	}
	return len(seenCores), max(len(seenSockets), 1)
}

// describe is [stats.Config.Machine].
func (f *machineFacts) describe() stats.Machine {
	out := stats.Machine{Booted: f.booted, Cores: f.cores, Sockets: f.sockets}
	r := f.node.resources.p.Load()
	if r == nil {
		return out
	}
	m := &r.machine
	out.CPUs, out.MemoryBytes, out.SwapBytes = len(m.CPUs), uint64(max(m.Memory, 0)), uint64(max(m.Swap, 0)) //nolint:gosec // not negative
	for _, h := range m.HugePages {
		out.HugePages += uint64(max(h.Bytes(), 0)) //nolint:gosec // not negative
	}
	out.ID, out.UUID, out.BootID = m.Info.MachineID, m.Info.SystemUUID, m.Info.BootID
	out.Kernel, out.OS = m.Info.KernelVersion, m.Info.OSImage
	return out
}
