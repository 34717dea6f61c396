// Package sysctl sets the kernel parameters that a service proxy depends on: the
// size of the connection tracking table and its timeouts.
//
// Conntrack.Settings says what is wanted, as data; Host reads and writes it. What
// is right already is not written, and the size of the table is never lowered.
//
// It is not a tool for other parameters.
//
//	host := sysctl.Host{}
//	changes, err := host.Apply(sysctl.Conntrack{MaxPerCore: 32768, Min: 131072}.Settings(cpus))
//
// Host is safe for concurrent use as far as the kernel is. Writing needs root, and
// for the size of the table the network namespace of the host.
package sysctl
