// Package cgroupstat reads what the processes of a control group use, from cgroup v1, v2
// and hybrids of both.
//
//	r, err := cgroupstat.New([]cgroupstat.Hierarchy{{Path: "/sys/fs/cgroup", V2: true, Controllers: controllers}})
//	u, err := r.Usage("/kubepods/burstable/pod1234") // CPU, memory, swap
//	d, err := r.Detail("/")                          // all there is to know of the machine
//
// [Reader.Usage] reads the few files that autoscalers and summaries need, [Reader.Detail]
// those of a dashboard, too. A file that the kernel does not have leaves its fields at the
// value that says so.
//
// # What it is not for
//
// It finds no hierarchies, makes no groups and sets no limits. It keeps nothing between
// two reads: rates are the caller's.
//
// # Safety
//
// A Reader may be used by several goroutines at once. It needs no privileges beyond those of
// the files, which everybody may read on most machines. Every call reads files of cgroupfs
// and procfs only, which do not block.
package cgroupstat
