package eviction_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

// left is an observation of "available/capacity" that was made at a time.
func left(tb testing.TB, s string, at time.Time) eviction.Observation {
	tb.Helper()
	available, capacity, _ := strings.Cut(s, "/")
	return eviction.Observation{Available: resource.MustParse(available), Capacity: resource.MustParse(capacity), Time: at}
}

func TestTracker(t *testing.T) {
	type at struct {
		second int
		left   string // of the signal; "" for no observation
		stale  bool   // measured when the one before was
		want   string // pressures, and signals that call for action
	}
	reclaim := func(threshold eviction.Threshold, s string) eviction.Threshold {
		threshold.MinReclaim = value(t, s)
		return threshold
	}
	tests := []struct {
		name       string
		thresholds []eviction.Threshold
		signal     eviction.Signal
		steps      []at
	}{
		{
			name:       "hard: at once, and the pressure lasts",
			thresholds: []eviction.Threshold{hard(t, eviction.MemoryAvailable, "100Mi")},
			signal:     eviction.MemoryAvailable,
			steps: []at{
				{second: 0, left: "1Gi/4Gi", want: "[]"},
				{second: 10, left: "100Mi/4Gi", want: "[]"},
				{second: 20, left: "99Mi/4Gi", want: "[MemoryPressure] memory.available"},
				{second: 30, left: "100Mi/4Gi", want: "[MemoryPressure]"},
				{second: 79, left: "1Gi/4Gi", want: "[MemoryPressure]"},
				{second: 80, left: "1Gi/4Gi", want: "[]"},
			},
		},
		{
			name:       "soft: the pressure at once, action when it lasts, anew after a relief",
			thresholds: []eviction.Threshold{soft(t, eviction.NodeFSAvailable, "10%", 30*time.Second)},
			signal:     eviction.NodeFSAvailable,
			steps: []at{
				{second: 0, left: "9Gi/100Gi", want: "[DiskPressure]"},
				{second: 29, left: "9Gi/100Gi", want: "[DiskPressure]"},
				{second: 30, left: "9Gi/100Gi", want: "[DiskPressure] nodefs.available"},
				{second: 40, left: "10Gi/100Gi", want: "[DiskPressure]"},
				{second: 50, left: "9Gi/100Gi", want: "[DiskPressure]"},
				{second: 80, left: "9Gi/100Gi", want: "[DiskPressure] nodefs.available"},
			},
		},
		{
			name:       "what called for action does so until the minimum reclaim is left",
			thresholds: []eviction.Threshold{reclaim(hard(t, eviction.MemoryAvailable, "1Gi"), "500Mi")},
			signal:     eviction.MemoryAvailable,
			steps: []at{
				{second: 0, left: "1200Mi/4Gi", want: "[]"},
				{second: 10, left: "1000Mi/4Gi", want: "[MemoryPressure] memory.available"},
				{second: 20, left: "1523Mi/4Gi", want: "[MemoryPressure] memory.available"},
				{second: 30, left: "1524Mi/4Gi", want: "[MemoryPressure]"},
				{second: 40, left: "1200Mi/4Gi", want: "[MemoryPressure]"},
			},
		},
		{
			name:       "one observation calls for action once",
			thresholds: []eviction.Threshold{hard(t, eviction.PIDAvailable, "1000")},
			signal:     eviction.PIDAvailable,
			steps: []at{
				{second: 0, left: "10/32768", want: "[PIDPressure] pid.available"},
				{second: 10, left: "10/32768", stale: true, want: "[PIDPressure]"},
				{second: 20, left: "10/32768", want: "[PIDPressure] pid.available"},
			},
		},
		{
			name:       "what is not measured is not judged, and begins anew",
			thresholds: []eviction.Threshold{soft(t, eviction.ImageFSInodesFree, "5%", 20*time.Second)},
			signal:     eviction.ImageFSInodesFree,
			steps: []at{
				{second: 0, left: "1/100", want: "[DiskPressure]"},
				{second: 10, left: "", want: "[DiskPressure]"},
				{second: 20, left: "1/100", want: "[DiskPressure]"},
				{second: 40, left: "1/100", want: "[DiskPressure] imagefs.inodesFree"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			tracker := eviction.NewTracker(tt.thresholds, time.Minute)
			measuredAt := start
			for _, step := range tt.steps {
				now := start.Add(time.Duration(step.second) * time.Second)
				if !step.stale {
					measuredAt = now
				}
				observations := eviction.Observations{}
				if step.left != "" {
					observations[tt.signal] = left(t, step.left, measuredAt)
				}
				verdict := tracker.Observe(now, observations)
				got := fmt.Sprint(verdict.Pressures)
				for _, threshold := range verdict.Crossed {
					got += " " + string(threshold.Signal)
				}
				if got != step.want {
					t.Errorf("after %d s with %q: %s, want %s", step.second, step.left, got, step.want)
				}
			}
		})
	}
}

func TestPressureOfNoTransitionHoldsWhileItIsSeen(t *testing.T) {
	tracker := eviction.NewTracker([]eviction.Threshold{hard(t, eviction.MemoryAvailable, "1Gi")}, 0)
	now := time.Now()
	for i, tt := range []struct {
		left string
		want []corev1.NodeConditionType
	}{{left: "1/4Gi", want: []corev1.NodeConditionType{"MemoryPressure"}}, {left: "2Gi/4Gi"}} {
		now = now.Add(time.Second)
		verdict := tracker.Observe(now, eviction.Observations{eviction.MemoryAvailable: left(t, tt.left, now)})
		if diff := cmp.Diff(tt.want, verdict.Pressures); diff != "" {
			t.Errorf("step %d: pressures (-want +got):\n%s", i, diff)
		}
	}
}

func TestMostUrgentThresholdIsFirst(t *testing.T) {
	thresholds, err := eviction.Thresholds(eviction.Settings{EnforcePods: true, Hard: map[string]string{
		"pid.available": "10", "nodefs.inodesFree": "10", "nodefs.available": "10", "imagefs.available": "10", "memory.available": "10",
	}})
	if err != nil {
		t.Fatal(err)
	}
	observations := eviction.Observations{}
	for _, threshold := range thresholds {
		observations[threshold.Signal] = left(t, "1/100", time.Now())
	}
	verdict := eviction.NewTracker(thresholds, time.Minute).Observe(time.Now(), observations)
	want := []string{
		"memory.available<10", "allocatableMemory.available<10", "nodefs.available<10", "imagefs.available<10", "containerfs.available<10",
		"nodefs.inodesFree<10", "containerfs.inodesFree<10", "pid.available<10",
	}
	if diff := cmp.Diff(want, lines(verdict.Crossed)); diff != "" {
		t.Errorf("crossed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.NodeConditionType{"DiskPressure", "MemoryPressure", "PIDPressure"}, verdict.Pressures); diff != "" {
		t.Errorf("pressures (-want +got):\n%s", diff)
	}
}

func TestResolvedAsksForTheMinimumReclaim(t *testing.T) {
	threshold := hard(t, eviction.ImageFSAvailable, "10%")
	threshold.MinReclaim = value(t, "5%")
	tracker := eviction.NewTracker([]eviction.Threshold{threshold}, time.Minute)
	for s, want := range map[string]bool{"14/100": false, "15/100": true} {
		if got := tracker.Resolved(eviction.Observations{eviction.ImageFSAvailable: left(t, s, time.Time{})}); got != want {
			t.Errorf("with %s left resolved is %t, want %t", s, got, want)
		}
	}
	if !tracker.Resolved(nil) {
		t.Error("what was not measured is not resolved")
	}
}
