// Package podworker keeps one worker per pod: it decides when a pod is synced,
// stopped and cleaned up, and keeps pods out of each other's way. What these three
// things mean is the business of a [Syncer].
//
// It is not a pod source, knows no container runtime, starts no container and
// writes no status; podworker/podsync is the Syncer that talks to a CRI runtime.
//
// A pod goes through phases:
//
//	        first seen   name is free
//	Unknown ───▶ Waiting ───▶ Syncing ───▶ Terminating ───▶ Terminated ───▶ Finished
//	             Waiting ────────────────▶ Terminating
//	Unknown ─────────────────────────────▶ Terminating
//	Unknown ◀────────────────────────────────────────────────────────────── Finished
//	             Waiting ◀───────────────────────────────────────────────── Finished
//
// Waiting is for static pods whose predecessor of the same namespace and name has
// not finished. Syncing ends when the pod is deleted, vanishes from its source,
// reaches a terminal phase, or is told to end; nothing leads back. From Unknown
// straight to Terminating goes a pod that only the runtime knows, or that is seen
// for the first time when it has already ended. A finished pod is forgotten once
// its source no longer names it, and waits for a new life if the source named its
// UID again meanwhile.
//
//	pool, err := podworker.New(syncer, podworker.Config{})
//	go pool.Run(ctx)          // blocks until ctx ends; pods keep running
//	pool.Update(pod)          // for every new or changed pod
//	pool.Retain(maps.Keys(m)) // with the UIDs of the whole set: what vanished, ends
//	pool.Wake(uid)            // the runtime changed something
//
// Every wait is per pod, so a pod that hangs delays no other. The decisions are in
// a pure state machine; the Pool around it adds goroutines and time.
//
// A Pool is safe for use by many goroutines. It needs no privileges.
package podworker
