// Package gauge measures what package eviction is about on a Linux machine: how much
// memory, disk space, inodes and process IDs are left, which of a node's data share a
// file system, and what a directory takes.
//
//	g, err := gauge.New(gauge.Config{Memory: tree, Capacity: memTotal, NodeFS: "/var/lib/kubelet", ImageFS: imagefs})
//	observations, err := g.Observe()
//
// It reads /proc, control groups and the numbers of file systems, and needs no
// privileges beyond being allowed to. A Gauge may be used from any goroutine.
package gauge
