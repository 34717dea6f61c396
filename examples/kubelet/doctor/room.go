package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

// crossed reports whether less is left than the hard threshold for a signal, and words that.
func (n *Node) crossed(signal eviction.Signal, left, capacity int64) (string, bool) {
	text, ok := n.Kubelet.EvictionHard[string(signal)]
	if !ok || capacity <= 0 {
		return "", false
	}
	limit := int64(0)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil {
			return "", false // said of the configuration
		}
		limit = int64(float64(capacity) * p / 100)
	} else {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return "", false
		}
		limit = q.Value()
	}
	return fmt.Sprintf("%s is below %s, from which on pods are evicted", signal, text), left < limit
}

// disk is a file system, and the signals that tell how much of it is left.
type disk struct {
	what, path    string
	space, inodes eviction.Signal
}

// lookAtDisks compares what is left on the disks with the thresholds of eviction.
func lookAtDisks(ctx context.Context, n *Node, r *report) {
	disks := []disk{{"data", n.Root, eviction.NodeFSAvailable, eviction.NodeFSInodesFree}}
	if n.Kubelet.PodLogsDir != "" {
		disks = append(disks, disk{"logs", n.Kubelet.PodLogsDir, eviction.NodeFSAvailable, eviction.NodeFSInodesFree})
	}
	var told []string
	for _, d := range append(disks, n.imageDisks(ctx)...) {
		if text := n.lookAtDisk(d, r); text != "" {
			told = append(told, text)
		}
	}
	switch {
	case !r.fine():
	case len(told) == 0:
		r.skip("there is no %s yet", n.Root)
	default:
		r.ok("%s", strings.Join(told, "; "))
	}
}

// imageDisks are those that the runtime keeps images on.
func (n *Node) imageDisks(ctx context.Context) []disk {
	client, err := n.dial(ctx)
	if err != nil {
		return nil
	}
	defer client.Close() //nolint:errcheck // nothing was changed
	info, err := client.ImageFsInfo(ctx)
	if err != nil {
		return nil
	}
	var disks []disk
	for _, u := range info.GetImageFilesystems() {
		disks = append(disks, imageDisk(u))
	}
	return disks
}

func imageDisk(u *runtimeapi.FilesystemUsage) disk {
	return disk{"images", u.GetFsId().GetMountpoint(), eviction.ImageFSAvailable, eviction.ImageFSInodesFree}
}

// lookAtDisk looks at one; it returns what is left, or nothing for a place that is not there.
func (n *Node) lookAtDisk(d disk, r *report) string {
	var st syscall.Statfs_t
	err := syscall.Statfs(d.path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		r.problem("look at the disk: dmesg", "%s: %s", d.path, err)
		return ""
	}
	const remove = "make room: crictl rmi --prune, journalctl --vacuum-size=500M, du -xh "
	bsize := st.Bsize
	left, capacity := clamp(st.Bavail)*bsize, clamp(st.Blocks)*bsize
	if text, short := n.crossed(d.space, left, capacity); short {
		r.problem(remove+d.path, "%s in %s: %s left of %s: %s", d.what, d.path, size(left), size(capacity), text)
	}
	if text, short := n.crossed(d.inodes, clamp(st.Ffree), clamp(st.Files)); short {
		r.problem("remove small files: find "+d.path+" -xdev -printf '%h\\n' | sort | uniq -c | sort -n", "%s in %s: %d inodes left of %d: %s", d.what, d.path, st.Ffree, st.Files, text)
	}
	if st.Flags&readOnly != 0 {
		r.problem("look why the kernel does not write to it any more: dmesg", "%s is on a file system that is read-only", d.path)
	}
	return fmt.Sprintf("%s: %s left of %s in %s", d.what, size(left), size(capacity), d.path)
}

// readOnly is ST_RDONLY of statvfs(3).
const readOnly = 1

func clamp(n uint64) int64 { return int64(min(n, 1<<50)) } //nolint:gosec // bounded

func size(bytes int64) string {
	const mebi = 1 << 20
	return resource.NewQuantity(bytes/mebi*mebi, resource.BinarySI).String()
}

// lookAtMemory compares memory and process IDs that are left with the thresholds of eviction.
func lookAtMemory(_ context.Context, n *Node, r *report) {
	total, available, err := memory(n.Proc)
	if err != nil {
		r.skip("%s", err)
		return
	}
	if text, short := n.crossed(eviction.MemoryAvailable, available, total); short {
		r.problem("find who uses it: ps aux --sort=-rss", "%s of memory left of %s: %s", size(available), size(total), text)
	}
	used, limit, err := processes(n.Proc)
	if err == nil {
		if text, short := n.crossed(eviction.PIDAvailable, limit-used, limit); short {
			r.problem("find who has them: ps -eLf", "%d process IDs left of %d: %s", limit-used, limit, text)
		}
		if left := limit - used; left < limit/100 {
			r.problem("find who has them: ps -eLf; podPidsLimit bounds pods", "%d process IDs left of %d", left, limit)
		}
	}
	if r.fine() {
		r.ok("%s left of %s; %d threads of %d", size(available), size(total), used, limit)
	}
}

// memory reads the amounts in bytes, see proc_meminfo(5).
func memory(proc string) (total, available int64, err error) {
	data, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		kibi, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "MemTotal":
			total = kibi << 10
		case "MemAvailable":
			available = kibi << 10
		}
	}
	if total == 0 {
		return 0, 0, errors.New("meminfo has no MemTotal")
	}
	return total, available, nil
}

// processes reads the number of threads, the fourth word of proc_loadavg(5), and how many IDs
// there are for them.
func processes(proc string) (used, limit int64, err error) {
	load, err := os.ReadFile(filepath.Join(proc, "loadavg"))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(load))
	if len(fields) < 4 {
		return 0, 0, fmt.Errorf("loadavg is %q", load)
	}
	_, threads, _ := strings.Cut(fields[3], "/")
	if used, err = strconv.ParseInt(threads, 10, 64); err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(filepath.Join(proc, "sys/kernel/pid_max"))
	if err != nil {
		return 0, 0, err
	}
	limit, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return used, limit, err
}
