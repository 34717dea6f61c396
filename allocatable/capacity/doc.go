// Package capacity reads what a Linux machine has: CPUs, memory, swap, huge pages,
// storage, process numbers, NUMA nodes, control groups, and the identity that a
// node reports of it.
//
//	machine, err := capacity.Read(capacity.Config{StorageDir: "/var/lib/kubelet"})
//	result, err := allocatable.Compute(machine.Resources(110), reserved)
//
// It reads files of /proc, /sys and /etc, below any root: those of the machine
// from inside a container, or of a tree that a test made. Watch reads again and
// says what changed. Machines with cgroup v1, v2 and both are read alike.
//
// The package is not for usage and statistics, and it counts no devices. Its
// functions may be called from any goroutine. No privileges are needed but for
// the UUID of the hardware, which only root may read; without it, the machine ID
// takes its place.
package capacity
