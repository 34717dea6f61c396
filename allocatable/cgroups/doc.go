// Package cgroups keeps the control groups of a node's pods: one for each pod, below
// one for its quality of service, below kubepods. The limits of a pod as a whole hold
// there: weight and quota of CPU, memory, huge pages, number of processes.
//
//	mounts, err := cgroups.Mounted()
//	tree, err := cgroups.New(cgroups.Config{Mounts: mounts, Class: podstatus.QOSClass})
//	err = tree.Setup(ctx)          // once, at start
//	err = tree.EnsurePod(ctx, pod) // before its sandbox; again after a resize
//	err = tree.RemovePod(ctx, uid) // after its end: kills what is left in it
//	err = tree.EnforcePods(ctx, result.PodsLimit()) // of package allocatable
//
// It writes cgroup v1, v2 and hybrids of both; runtimes make the cgroups of containers
// below the one of the pod. With Config.Slices the groups are slices of systemd, which
// [Systemd] asks for them over D-Bus, and which keeps their limits in its books.
// [LimitsOf] is the pure part: what a pod's limits are.
//
// # What it is not for
//
// It puts no process anywhere and evicts nobody: it tells what pods use (PodUsage,
// PodsUsage, MachineUsage) and when their memory passes a mark (AwaitPodsMemory).
//
// # Safety
//
// A Tree may be used from several goroutines at once; two calls for one pod must not
// overlap. It needs root and cgroup file systems that are mounted writable.
package cgroups
