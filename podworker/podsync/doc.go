// Package podsync makes a container runtime run a pod: it compares the pod with
// what the runtime reports, decides, and does the calls.
//
// The decision is [Plan], a pure function whose result can be printed. Everything
// else is a thin shell around it, [Syncer], which implements podworker.Syncer:
//
//	s, err := podsync.New(client, podsync.Config{
//		Node:     podspec.Node{Name: "node-a", Root: "/var/lib/kubelet", Instance: id},
//		OnStatus: publish,
//	})
//	pool, err := podworker.New(s, podworker.Config{})
//
// A Syncer keeps little in memory: restart counts, the crash back-off and the hash
// of the spec live with the containers, and what running pods have of the node in
// their directories, so that the next process goes on where this one stopped and
// restarts nothing.
//
// # What it is not for
//
// It does not decide which pods run here, when they are synced again or how long
// they may take to stop; package podworker does. It runs no probes, it is told
// their results. Images, cgroups and mounts are for others, see [Parts]. It leaves
// alone what it did not make unless a source names it.
//
// # Safety
//
// A Syncer may be used for many pods at once, with one call out per pod UID. It
// holds no lock over a call to the runtime or the disk, so a pod that hangs delays
// no other.
//
// Access to the runtime's socket and to the directories of [podspec.Node] is
// needed, on a real node that is root.
package podsync
