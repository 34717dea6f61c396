// Package run starts what a set of conformance specs needs, runs upstream's suite
// against it, and keeps the results.
//
//	outcome, err := run.Run(ctx, run.Config{Set: set, Kit: kit, Dir: "_out/conformance"})
//
// The results go to a journal as they come: a run that was killed goes on with the
// specs that have none, in a new cluster. Each part of a run leaves Ginkgo's report,
// JUnit and the logs of all programs in a folder of its own.
//
// It needs root and takes the machine's processors for minutes. [Run] may be called
// once at a time per folder. The package is for this repository and not API.
package run
