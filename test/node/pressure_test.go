package node_test

import (
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/test/pressure"
)

// TestPodsThatTakeTooMuch has real containers take memory and disk space on this machine:
// beyond their own limits, and beyond what all pods may have.
func TestPodsThatTakeTooMuch(t *testing.T) {
	s := useNode(t)
	if err := s.ImportImage(t.Context(), pressure.Image()); err != nil {
		t.Fatal(err)
	}
	cfg := pressure.Config{Socket: s.Socket(), Root: s.Dir("pressure"), Logs: s.PodLogs(), CgroupRoot: s.CgroupRoot(), Patience: 2 * patience}
	t.Run("limits", func(t *testing.T) { pressure.Limits(t, cfg) })
	t.Run("out of memory", func(t *testing.T) { pressure.OutOfMemory(t, cfg) })
	t.Run("a hog of memory", func(t *testing.T) { pressure.MemoryHog(t, cfg, 400, 280) })
	t.Run("local storage", func(t *testing.T) { pressure.LocalStorage(t, cfg) })
}

// BenchmarkUsage reads what 110 pods use from control groups and from a real containerd.
func BenchmarkUsage(b *testing.B) {
	s := useNode(b)
	if err := s.ImportImage(b.Context(), pressure.Image()); err != nil {
		b.Fatal(err)
	}
	cfg := pressure.Config{
		Socket: s.Socket(), Root: s.Dir("pressure"), Logs: s.PodLogs(), CgroupRoot: s.CgroupRoot(), Patience: 10 * time.Minute,
	}
	pressure.Usage(b, cfg, 110)
}
