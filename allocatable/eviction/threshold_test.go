package eviction_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

// lines shows thresholds as "signal<value", with what is not zero behind.
func lines(thresholds []eviction.Threshold) []string {
	var out []string
	for _, t := range thresholds {
		line := fmt.Sprintf("%s<%s", t.Signal, t.Value)
		if !t.Hard() {
			line += fmt.Sprintf(" for %v", t.Grace)
		}
		if !t.MinReclaim.None() {
			line += fmt.Sprintf(" and %s more", t.MinReclaim)
		}
		out = append(out, line)
	}
	return out
}

func TestThresholds(t *testing.T) {
	tests := []struct {
		name     string
		settings eviction.Settings
		want     []string
	}{
		{name: "none"},
		{
			name:     "memory is first, disk space before inodes",
			settings: eviction.Settings{Disks: eviction.ImagesSplit, Hard: map[string]string{"pid.available": "10%", "nodefs.inodesFree": "5%", "nodefs.available": "10%", "memory.available": "100Mi"}},
			want: []string{
				"memory.available<100Mi", "nodefs.available<10%", "containerfs.available<10%", "nodefs.inodesFree<5%",
				"containerfs.inodesFree<5%", "pid.available<10%",
			},
		},
		{
			name: "soft ones need to last, and come after hard ones",
			settings: eviction.Settings{
				Hard: map[string]string{"memory.available": "100Mi"}, Soft: map[string]string{"memory.available": "300Mi"},
				SoftGracePeriod: map[string]string{"memory.available": "1m30s"}, MinimumReclaim: map[string]string{"memory.available": "50Mi"},
			},
			want: []string{"memory.available<100Mi and 50Mi more", "memory.available<300Mi for 1m30s and 50Mi more"},
		},
		{
			name:     "what all pods may use is guarded by the hard threshold of memory",
			settings: eviction.Settings{EnforcePods: true, Hard: map[string]string{"memory.available": "5%"}, Soft: map[string]string{"memory.available": "9%"}, SoftGracePeriod: map[string]string{"memory.available": "1s"}},
			want:     []string{"memory.available<5%", "memory.available<9% for 1s", "allocatableMemory.available<5%"},
		},
		{
			name:     "nothing and everything are no thresholds",
			settings: eviction.Settings{Hard: map[string]string{"memory.available": "0%", "nodefs.available": "100%", "pid.available": "5"}},
			want:     []string{"pid.available<5"},
		},
		{
			name:     "where containers write decides what containerfs is",
			settings: eviction.Settings{Disks: eviction.ImagesApart, Hard: map[string]string{"imagefs.available": "15%", "nodefs.available": "10%", "containerfs.available": "1%"}},
			want:     []string{"nodefs.available<10%", "imagefs.available<15%", "containerfs.available<15%"},
		},
		{
			name:     "a reclaim of nothing",
			settings: eviction.Settings{Hard: map[string]string{"memory.available": "1Gi"}, MinimumReclaim: map[string]string{"memory.available": "0"}},
			want:     []string{"memory.available<1Gi"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := eviction.Thresholds(tt.settings)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(got)); diff != "" {
				t.Errorf("thresholds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThresholdsNamesAllThatIsWrong(t *testing.T) {
	_, err := eviction.Thresholds(eviction.Settings{
		Hard:            map[string]string{"memory.free": "1Gi", "memory.available": "-1"},
		Soft:            map[string]string{"nodefs.available": "10%", "imagefs.available": "10%"},
		SoftGracePeriod: map[string]string{"imagefs.available": "0s"},
		MinimumReclaim:  map[string]string{"imagefs.available": "many"},
	})
	if err == nil {
		t.Fatal("thresholds were taken")
	}
	for _, want := range []string{
		"evictionHard[memory.free]: is no signal", "evictionHard[memory.available]: threshold \"-1\"",
		"evictionSoftGracePeriod[nodefs.available]: ", "evictionSoftGracePeriod[imagefs.available]: must be longer than 0",
		"evictionMinimumReclaim[imagefs.available]: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

func FuzzThresholds(f *testing.F) {
	f.Add("memory.available", "100Mi", "1m", "5%")
	f.Add("nodefs.inodesFree", "5%", "", "")
	f.Add("no.signal", "1e9999", "-1s", "0")
	f.Fuzz(func(t *testing.T, signal, value, grace, reclaim string) {
		one := func(v string) map[string]string { return map[string]string{signal: v} }
		thresholds, err := eviction.Thresholds(eviction.Settings{
			Hard: one(value), Soft: one(value), SoftGracePeriod: one(grace), MinimumReclaim: one(reclaim), EnforcePods: true,
		})
		if err != nil {
			return
		}
		for _, threshold := range thresholds {
			if threshold.Signal.Resource() == "" || threshold.Value.None() || threshold.Grace < 0 {
				t.Errorf("a threshold of nothing: %+v", threshold)
			}
		}
	})
}

func value(tb testing.TB, s string) allocatable.Threshold {
	tb.Helper()
	v, err := allocatable.ParseThreshold(s)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func hard(tb testing.TB, signal eviction.Signal, s string) eviction.Threshold {
	tb.Helper()
	return eviction.Threshold{Signal: signal, Value: value(tb, s)}
}

func soft(tb testing.TB, signal eviction.Signal, s string, grace time.Duration) eviction.Threshold {
	tb.Helper()
	return eviction.Threshold{Signal: signal, Value: value(tb, s), Grace: grace}
}
