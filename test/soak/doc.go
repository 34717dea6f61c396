// Package soak lets a node live for hours in little time: pods come, crash, flap and go,
// their configuration changes, Deployments behind Services are rolled out under the eyes of
// clients, static pods are rewritten. Again and again all of it is removed, and what the
// node then has must be what it had before: processes' goroutines and file descriptors,
// sandboxes, mounts, control groups, folders, addresses, packet rules. No request may have
// failed, and memory must not grow.
//
//	report, err := soak.Run(ctx, soak.Config{For: 2 * time.Hour, Dir: dir})
//	…
//	err = report.WriteTable(os.Stdout)
//	if !report.Passed() { … }
//
// [Run] does and measures; [Judge] is pure: it makes facts of what was measured. What counts
// as a leak, and why, is told in docs/adr/0033-what-a-soak-calls-a-leak.md.
//
// The package is for this repository and not API. It needs what package test/cluster needs.
package soak
