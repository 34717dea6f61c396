package cgroupstat

import (
	"math"
	"time"
)

// Unlimited is a limit that there is not, in bytes or processes.
const Unlimited = math.MaxInt64

// Usage is what a group uses of CPU and memory. It includes the groups below it.
type Usage struct {
	// Time is when it was read.
	Time time.Time
	// CPU is the time used by all its processes since the group was made.
	CPU time.Duration
	// Memory and Swap are in bytes.
	Memory Memory
	Swap   Swap
}

// Memory is in bytes, but for the faults.
type Memory struct {
	// Usage is all that is charged, WorkingSet is Usage without the pages of files that
	// were not used for a while: what can't be reclaimed at once. RSS is what belongs to no
	// file, Cache what belongs to files.
	Usage, WorkingSet, RSS, Cache uint64
	// Mapped are pages of files that processes have mapped.
	Mapped uint64
	// Faults and MajorFaults count since the group was made; major ones had to read.
	Faults, MajorFaults uint64
	// Limit is [Unlimited] if there is none.
	Limit uint64
}

// Swap is in bytes.
type Swap struct {
	Usage uint64
	// Limit is that of swap alone, [Unlimited] if there is none. That of cgroup v1 is for
	// memory and swap together; the limit of memory is taken off it.
	Limit uint64
}

// Detail is what a group uses, with what it may use and how it was held up.
type Detail struct {
	Usage
	// User and System are parts of CPU.
	User, System time.Duration
	// Periods counts the periods of the CPU quota, Throttled those in which it was used
	// up, and ThrottledFor is how long it then stood still.
	Periods, Throttled uint64
	ThrottledFor       time.Duration
	// Shares are the weight of its CPU time in the unit of cgroup v1, 2 to 262144. Quota
	// is the time it gets in each Period, negative if there is no limit.
	Shares        uint64
	Quota, Period time.Duration
	Extremes
	// Disks are what it read and wrote, by device.
	Disks []Disk
	// Processes counts processes, Threads their threads, MaxThreads is [Unlimited] if
	// there is no limit.
	Processes, Threads, MaxThreads uint64
}

// Extremes are how near to its limits the memory of a group came.
type Extremes struct {
	// MaxMemory is the largest usage ever; 0: the kernel does not tell.
	MaxMemory uint64
	// Failures counts how often the limit of memory was met, Kills how many processes
	// were killed for it.
	Failures, Kills uint64
	// Reserved is memory that the group is left as long as possible, in bytes.
	Reserved uint64
}

// Disk is what was read from and written to a device.
type Disk struct {
	// Major and Minor name the device.
	Major, Minor uint32
	// ReadBytes and WrittenBytes are in bytes, Reads and Writes count operations.
	ReadBytes, WrittenBytes, Reads, Writes uint64
}

// Pressure is how much a group waits for CPU, memory and devices; nil where the kernel does
// not tell (kernel: Documentation/accounting/psi.rst).
type Pressure struct{ CPU, Memory, IO *Stall }

// Stall is the waiting for one thing: of some processes, and of all at once.
type Stall struct{ Some, Full Waiting }

// Waiting is for how long was waited in all, and in per cent of the last ten seconds, minute
// and five minutes.
type Waiting struct {
	Total                time.Duration
	Avg10, Avg60, Avg300 float64
}
