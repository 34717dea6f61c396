// Package volume does what the volumes of pods need of a Linux mount table: a part of
// a volume bound to a place of its own for subPath, volumes in memory, and their end.
//
//	var m volume.Mounter
//	err := m.Bind(ctx, "/srv/data", "app/conf", target, 0)
//	err = m.Memory(ctx, dir, 64<<20, 0o777)
//	err = m.Unmount(ctx, podDir) // everything at or below it
//
// # Links
//
// Containers write into volumes, and may turn any part of a path into a link while it
// is looked at. Bind opens what a path names beneath the volume, refusing every way
// out (openat2(2), RESOLVE_BENEATH), and binds what it holds open, not what the path
// names a moment later. Links that stay inside are followed. ReadFile opens in the
// same way.
//
// # What it is not for
//
// It fills no volumes and checks no types of hostPath.
//
// # Safety
//
// A Mounter may be used from several goroutines at once, for different targets. It
// needs Linux 5.6 and CAP_SYS_ADMIN; ReadFile needs no privileges.
package volume
