// Package podstatus computes the status of a pod from what a container runtime
// reports: container states, phase, conditions and addresses.
//
// [Compute] is one pure function. It does no I/O, reads no clock and keeps
// nothing; whoever calls it passes the status it published before, so that
// transition times stay and a pod that has ended stays ended.
//
//	st := podstatus.Compute(podstatus.Input{
//		Pod:      pod,
//		Previous: &last,
//		Observed: seen,
//		Now:      time.Now(),
//	})
//
// # What it is not for
//
// It does not talk to a runtime: package podsync fills an [Observed] from the
// CRI, and so can anything else that runs containers. It does not write to an
// API server.
//
// # Safety
//
// All functions may be called from several goroutines at once; they do not change
// their arguments. No privileges are needed.
package podstatus
