// Package userns hands out ranges of user and group IDs to pods that have users of
// their own (hostUsers: false), and remembers them on disk as a kubelet does, so that
// pods keep theirs over a restart and a change of the agent.
//
//	ids, err := userns.New(userns.Config{Pods: "/var/lib/kubelet/pods"})
//	r, err := ids.Get(pod.UID) // the same each time
//	ids.Release(pod.UID)       // after the end of the pod
//
// Ranges do not overlap and never contain the IDs below the first range, which are
// those of the host.
//
// # What it is not for
//
// It makes no namespaces and maps nothing: runtimes do, from what they are told.
//
// # Safety
//
// An Allocator may be used from several goroutines at once. It needs to write the
// directory of pods.
package userns
