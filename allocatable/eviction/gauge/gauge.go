//go:build linux

package gauge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

// Memory tells what the machine and its pods use. *cgroups.Tree does.
type Memory interface {
	MachineUsage() (cgroups.Usage, error)
	PodsUsage() (cgroups.Usage, error)
}

// Config says what is measured. NodeFS is required; what else is empty is not measured.
type Config struct {
	Memory Memory
	// Capacity is the memory of the machine in bytes; see Gauge.SetCapacity for one that
	// grows.
	Capacity int64
	// NodeFS, ImageFS and ContainerFS are directories on the file systems of volumes and
	// logs, of images, and of what containers write. The last two may be empty: then they
	// are on the one before.
	NodeFS, ImageFS, ContainerFS string
	// Proc is where procfs is; empty: /proc.
	Proc string
}

// Gauge measures a machine. Use New. Its methods may be called by several goroutines.
type Gauge struct {
	cfg      Config
	capacity atomic.Int64 // memory in bytes
}

// New returns a Gauge.
func New(cfg Config) (*Gauge, error) {
	if cfg.NodeFS == "" {
		return nil, errors.New("gauge: Config.NodeFS is empty, want the directory of the agent")
	}
	if cfg.ImageFS == "" {
		cfg.ImageFS = cfg.NodeFS
	}
	if cfg.ContainerFS == "" {
		cfg.ContainerFS = cfg.ImageFS
	}
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	g := &Gauge{cfg: cfg}
	g.capacity.Store(cfg.Capacity)
	return g, nil
}

// SetCapacity says how many bytes of memory the machine has from now on, in place of
// Config.Capacity: what is in use counts against it.
func (g *Gauge) SetCapacity(memory int64) { g.capacity.Store(memory) }

// Disks says which of the directories share a file system.
func (g *Gauge) Disks() (eviction.Disks, error) {
	var devices []uint64
	for _, dir := range []string{g.cfg.NodeFS, g.cfg.ImageFS, g.cfg.ContainerFS} {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
		devices = append(devices, st.Dev)
	}
	switch node, image, container := devices[0], devices[1], devices[2]; {
	case image == node:
		return eviction.OneDisk, nil
	case container == node:
		return eviction.ImagesSplit, nil
	}
	return eviction.ImagesApart, nil
}

// Observe measures. A signal that can't be measured is left out, and the error says
// why; the others are there beside it.
func (g *Gauge) Observe() (eviction.Observations, error) {
	o := eviction.Observations{}
	now := time.Now()
	err := errors.Join(
		g.memory(o, now),
		disk(o, now, g.cfg.NodeFS, eviction.NodeFSAvailable, eviction.NodeFSInodesFree),
		disk(o, now, g.cfg.ImageFS, eviction.ImageFSAvailable, eviction.ImageFSInodesFree),
		disk(o, now, g.cfg.ContainerFS, eviction.ContainerFSAvailable, eviction.ContainerFSInodesFree),
		g.pids(o, now),
	)
	if err != nil {
		err = fmt.Errorf("gauge: %w", err)
	}
	return o, err
}

// memory measures what of the machine's memory is no working set, and what is left of
// the limit of all pods, if there is one.
func (g *Gauge) memory(o eviction.Observations, now time.Time) error {
	capacity := g.capacity.Load()
	if g.cfg.Memory == nil || capacity <= 0 {
		return nil
	}
	machine, err := g.cfg.Memory.MachineUsage()
	if err != nil {
		return err
	}
	o[eviction.MemoryAvailable] = observation(capacity-machine.Memory, capacity, resource.BinarySI, now)
	pods, err := g.cfg.Memory.PodsUsage()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // no pod has run yet
	case err != nil:
		return err
	case pods.MemoryLimit > 0:
		o[eviction.AllocatableMemoryAvailable] = observation(pods.MemoryLimit-pods.Memory, pods.MemoryLimit, resource.BinarySI, now)
	}
	return nil
}

// disk measures what of a file system is left to those who are not root. One without a fixed
// number of inodes tells 0 of them: then none can run short.
func disk(o eviction.Observations, now time.Time, dir string, space, inodes eviction.Signal) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := st.Frsize
	o[space] = observation(int64(st.Bavail)*unit, int64(st.Blocks)*unit, resource.BinarySI, now) //nolint:gosec // no file system has 8 EiB
	if st.Files > 0 {
		o[inodes] = observation(int64(st.Ffree), int64(st.Files), resource.DecimalSI, now) //nolint:gosec // as above
	}
	return nil
}

// pids measures how many tasks there can still be: the kernel bounds both their numbers
// (pid_max) and how many there are (threads-max); proc_pid_loadavg(5) counts them.
func (g *Gauge) pids(o eviction.Observations, now time.Time) error {
	most, err := g.number("sys/kernel/pid_max")
	if err != nil {
		return err
	}
	threads, err := g.number("sys/kernel/threads-max")
	if err != nil {
		return err
	}
	most = min(most, threads)
	raw, err := os.ReadFile(filepath.Join(g.cfg.Proc, "loadavg"))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 4 {
		return fmt.Errorf("%s/loadavg is %q, want five words", g.cfg.Proc, raw)
	}
	_, tasks, _ := strings.Cut(fields[3], "/")
	running, err := strconv.ParseInt(tasks, 10, 64)
	if err != nil {
		return fmt.Errorf("%s/loadavg: %w", g.cfg.Proc, err)
	}
	o[eviction.PIDAvailable] = observation(most-running, most, resource.DecimalSI, now)
	return nil
}

func (g *Gauge) number(name string) (int64, error) {
	path := filepath.Join(g.cfg.Proc, name)
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

func observation(available, capacity int64, format resource.Format, now time.Time) eviction.Observation {
	return eviction.Observation{
		Available: *resource.NewQuantity(max(available, 0), format), Capacity: *resource.NewQuantity(capacity, format), Time: now,
	}
}
