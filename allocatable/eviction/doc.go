// Package eviction keeps a node from running dry: it watches how much memory, disk
// space, inodes and process IDs are left, tells the node's pressures, and when a
// threshold is crossed ends pods one by one, those first that use more than they
// asked for (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction).
//
//	thresholds, err := eviction.Thresholds(settings) // evictionHard, evictionSoft, …
//	manager, err := eviction.New(meter, pods, storage, eviction.Config{Thresholds: thresholds})
//	err = manager.Run(ctx) // until ctx ends
//	manager.MemoryPressure() // for the node's conditions
//
// What decides is pure and can be used without the Manager: Tracker turns
// observations into pressures and thresholds that call for action, Rank orders pods,
// OverLimit finds pods that use more local storage than they may, Message words the
// reason. The Manager has the node measured, frees what belongs to no running pod, and
// evicts.
//
// The package does no I/O of its own and needs no privileges. It is not for admission:
// podworker/admission keeps pods from a node under pressure. Functions and the
// Manager's methods may be called from any goroutine; a Tracker belongs to one.
package eviction
