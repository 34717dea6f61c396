// Package usage measures what this process uses.
package usage

import (
	"runtime"
	"syscall"
	"time"
)

// CPU returns the CPU time that this process has used, in user and kernel mode.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Memory returns the bytes of live heap and of stacks.
func Memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
