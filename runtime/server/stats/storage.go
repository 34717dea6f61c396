package stats

import (
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// stats are those of a file system, on which something takes up a part; nil if neither is
// known.
func (f *fileSystem) stats(at time.Time, part *taken) *statsapi.FsStats {
	if !f.known && part == nil {
		return nil
	}
	out := &statsapi.FsStats{Time: metav1.NewTime(at)}
	if f.known {
		out.AvailableBytes, out.CapacityBytes = new(f.available), new(f.size)
		out.InodesFree, out.Inodes = new(f.inodesFree), new(f.inodes)
	}
	if part != nil {
		out.UsedBytes, out.InodesUsed = new(part.bytes), new(part.inodes)
	}
	return out
}

// stats are those of what the runtime keeps; nil if it does not say.
func (s *storage) stats() *statsapi.FsStats {
	if s == nil {
		return nil
	}
	return s.fileSystem.stats(s.at, &s.taken)
}

// measured is what is known of disks.
type measured struct {
	told  *runtimeAnswer
	disks *diskAnswer
}

// storageOf fills in what the containers of a pod take up on disks, and what the pod takes
// of the node's.
func storageOf(pod *statsapi.PodStats, p *podReading, volumes []Volume, m measured) {
	told, disks := m.told, m.disks
	ids := map[string]string{}
	for i := range p.Containers {
		ids[p.Containers[i].Name] = p.Containers[i].ID
	}
	var all taken
	known := false
	for i := range pod.Containers {
		c := &pod.Containers[i]
		id := ids[c.Name]
		if layer := told.containers[id].GetWritableLayer(); layer != nil {
			part := taken{bytes: layer.GetUsedBytes().GetValue(), inodes: layer.GetInodesUsed().GetValue()}
			disk := told.disks[layer.GetFsId().GetMountpoint()]
			c.Rootfs = disk.stats(time.Unix(0, layer.GetTimestamp()), &part)
			all, known = all.plus(part), true
		}
		if part, ok := disks.logs[id]; ok {
			c.Logs = disks.node.stats(disks.at, &part)
			all, known = all.plus(part), true
		}
	}
	for i := range volumes {
		if volumes[i].Local {
			all, known = all.plus(taken{bytes: volumes[i].Used, inodes: volumes[i].InodesUsed}), true
		}
	}
	if known {
		pod.EphemeralStorage = disks.node.stats(disks.at, &all)
	}
}

func (t taken) plus(more taken) taken { return taken{t.bytes + more.bytes, t.inodes + more.inodes} }

// volumeStats are those of the volumes of a pod.
func volumeStats(namespace string, volumes []Volume, at time.Time) []statsapi.VolumeStats {
	var out []statsapi.VolumeStats
	for i := range volumes {
		v := &volumes[i]
		s := statsapi.VolumeStats{Name: v.Name, FsStats: statsapi.FsStats{
			Time: metav1.NewTime(at), AvailableBytes: new(v.Available), CapacityBytes: new(v.Size), UsedBytes: new(v.Used),
			InodesFree: new(v.InodesFree), Inodes: new(v.Inodes), InodesUsed: new(v.InodesUsed),
		}}
		if v.Claim != "" {
			s.PVCRef = &statsapi.PVCReference{Name: v.Claim, Namespace: namespace}
		}
		out = append(out, s)
	}
	return out
}

// rlimitStats are how many processes there may be and are, proc_sys_kernel(5),
// proc_loadavg(5); nil if the kernel does not say.
func rlimitStats() *statsapi.RlimitStats {
	out := &statsapi.RlimitStats{Time: metav1.Now()}
	for _, name := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && (out.MaxPID == nil || n < *out.MaxPID) {
			out.MaxPID = &n
		}
	}
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	// The fourth field is "running/all".
	if fields := strings.Fields(string(raw)); len(fields) > 3 {
		_, all, _ := strings.Cut(fields[3], "/")
		if n, err := strconv.ParseInt(all, 10, 64); err == nil {
			out.NumOfRunningProcesses = &n
		}
	}
	return out
}
