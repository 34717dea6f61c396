//go:build linux

package cgroups_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// TestMemoryPassesAMarkOnVersion2: nobody tells, so that it is looked each second.
func TestMemoryPassesAMarkOnVersion2(t *testing.T) {
	m := fakeV2(t, "kubepods")
	use := func(t *testing.T, current string) {
		t.Helper()
		writeFile(t, m.Path+"/kubepods/memory.current", current)
	}
	writeFile(t, m.Path+"/kubepods/memory.stat", "inactive_file 100\n")
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}})
	for name, way := range map[string][2]string{"up": {"1000", "1100"}, "down": {"1100", "1000"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				use(t, way[0])
				began := time.Now()
				passed := make(chan error, 1)
				go func() { passed <- tree.AwaitPodsMemory(t.Context(), 1000) }()
				<-time.After(1500 * time.Millisecond)
				synctest.Wait()
				select {
				case err := <-passed:
					t.Fatalf("a mark was passed by nothing: %v", err)
				default:
				}
				use(t, way[1])
				if err, took := <-passed, time.Since(began); err != nil || took != 2*time.Second {
					t.Errorf("the mark was passed after %s: %v", took, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := tree.AwaitPodsMemory(ctx, 1000); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error is %v, want that of the deadline", err)
				}
			})
		})
	}
	if err := tree.AwaitMachineMemory(t.Context(), 1); err == nil {
		t.Error("a hierarchy that cannot be read is no error")
	}
}
