package capacity

import (
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable"
)

// Config says where to read. The zero value reads this machine, without storage.
type Config struct {
	// Root is the directory below which /proc, /sys, /etc and StorageDir are found;
	// "" is "/".
	Root string
	// StorageDir is the directory whose filesystem is the node's ephemeral storage,
	// like "/var/lib/kubelet". If it is not there yet, its nearest parent counts.
	// "" reads no storage.
	StorageDir string
	// Period is the time between two readings of Watch; 0 is 10 s, as often as the
	// kubelet computes its node's status.
	Period time.Duration
	// Log takes the failures of Watch; nil discards them.
	Log *slog.Logger
}

// Machine is what a machine has. It is plain data.
type Machine struct {
	// CPUs are the numbers of the logical CPUs that are online, in order.
	CPUs []int
	// Memory and Swap are in bytes. Memory is what the kernel manages, huge pages
	// included.
	Memory, Swap int64
	// HugePages are the pages taken in advance, one entry for each size the kernel
	// supports, in the order of sizes.
	HugePages []HugePages
	// Storage is the size in bytes of the filesystem of StorageDir; 0 without it.
	Storage int64
	// PIDs is how many processes and threads the kernel allows; 0 if it does not say.
	PIDs int64
	// NUMA are the nodes of memory, in order; none on a kernel without NUMA.
	NUMA []NUMANode
	// Cgroups says which control groups are mounted.
	Cgroups Cgroups
	// AppArmor says that the kernel confines processes by AppArmor.
	AppArmor bool
	// Info is what a node's status tells of the machine. The versions of the kubelet
	// and the runtime are for the caller to fill in.
	Info corev1.NodeSystemInfo
}

// HugePages counts pages of one size.
type HugePages struct {
	Size  int64 // bytes
	Count int64
}

// Resource returns the name under which Kubernetes knows pages of this size, like
// "hugepages-2Mi".
func (h HugePages) Resource() corev1.ResourceName {
	size := resource.NewQuantity(h.Size, resource.BinarySI)
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + size.String())
}

// Bytes returns the memory that all pages take.
func (h HugePages) Bytes() int64 { return h.Size * h.Count }

// Resources returns the capacity as allocatable.Compute takes it, with room for a
// number of pods. Resources that were not read are not in it.
func (m Machine) Resources(pods int64) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(len(m.CPUs)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(m.Memory, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
	for _, h := range m.HugePages {
		list[h.Resource()] = *resource.NewQuantity(h.Bytes(), resource.BinarySI)
	}
	if m.Storage > 0 {
		list[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(m.Storage, resource.BinarySI)
	}
	if m.PIDs > 0 {
		list[allocatable.PID] = *resource.NewQuantity(m.PIDs, resource.DecimalSI)
	}
	return list
}

// Read reads the machine once. Without CPUs or memory there is no Machine; what
// else a machine does not have, or does not show to a container, stays empty. A
// file that is there and makes no sense is an error, which names it.
func Read(cfg Config) (Machine, error) { return read(cfg, filesystemSize) }

// read is Read with a seam: no test can make a filesystem of a size.
func read(cfg Config, sizeOf func(path string) (int64, error)) (Machine, error) {
	t := tree{root: cfg.Root}
	var m Machine
	for _, step := range []struct {
		what string
		read func() error
	}{
		{"CPUs", func() (err error) { m.CPUs, err = readCPUs(t); return err }},
		{"memory", func() (err error) { m.Memory, m.Swap, err = readMemory(t); return err }},
		{"huge pages", func() (err error) { m.HugePages, err = readHugePages(t, "/sys/kernel/mm/hugepages"); return err }},
		{"process numbers", func() (err error) { m.PIDs, err = readPIDs(t); return err }},
		{"NUMA nodes", func() (err error) { m.NUMA, err = readNUMA(t); return err }},
		{"control groups", func() (err error) { m.Cgroups, err = readCgroups(t); return err }},
		{"AppArmor", func() (err error) { m.AppArmor, err = readAppArmor(t); return err }},
		{"identity", func() (err error) { m.Info, err = readInfo(t); return err }},
	} {
		if err := step.read(); err != nil {
			return Machine{}, fmt.Errorf("read the machine's %s: %w", step.what, err)
		}
	}
	m.Info.Swap = &corev1.NodeSwapStatus{Capacity: &m.Swap}
	if cfg.StorageDir != "" {
		var err error
		if m.Storage, err = sizeOf(t.nearest(cfg.StorageDir)); err != nil {
			return Machine{}, fmt.Errorf("read the size of the filesystem of %s: %w", cfg.StorageDir, err)
		}
	}
	return m, nil
}
