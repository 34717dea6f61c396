package eviction

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Observation is how much of something there is and is left.
type Observation struct {
	Available, Capacity resource.Quantity
	// Time is when it was measured. An observation that is not newer than the one that
	// an eviction was based on calls for no other one. Zero: now.
	Time time.Time
}

// Observations are what was measured at one time. A signal that could not be measured
// is left out: nothing is decided about it.
type Observations map[Signal]Observation

// Verdict is what follows from observations.
type Verdict struct {
	// Pressures are the conditions of the node that hold, in order.
	Pressures []corev1.NodeConditionType
	// Crossed are the thresholds that call for action now, the most urgent first.
	Crossed []Threshold
}

// Tracker remembers since when thresholds are crossed. It belongs to one goroutine.
// It has a NewTracker because thresholds are remembered by their place.
type Tracker struct {
	thresholds []Threshold
	transition time.Duration

	since    map[int]time.Time // by index of a threshold that is crossed, or not yet resolved
	due      map[int]bool      // those whose grace is over, from the last call
	seen     map[corev1.NodeConditionType]time.Time
	measured map[Signal]time.Time
}

// NewTracker returns a Tracker that has seen nothing. A pressure lasts until its
// thresholds have not been crossed for the transition period.
func NewTracker(thresholds []Threshold, transition time.Duration) *Tracker {
	return &Tracker{
		thresholds: slices.Clone(thresholds), transition: transition,
		since: map[int]time.Time{}, due: map[int]bool{},
		seen: map[corev1.NodeConditionType]time.Time{}, measured: map[Signal]time.Time{},
	}
}

// Observe takes what was measured and says what follows.
//
// A threshold is crossed when less is left than it demands. One that called for
// action stays crossed until its minimum reclaim is left on top. Thresholds that can't
// be judged, because nothing was measured, are taken for not crossed.
func (t *Tracker) Observe(now time.Time, measured Observations) Verdict {
	since, due := map[int]time.Time{}, map[int]bool{}
	var crossed []Threshold
	for i, threshold := range t.thresholds {
		o, ok := measured[threshold.Signal]
		if !ok || !threshold.met(o, t.due[i]) {
			continue
		}
		began, known := t.since[i]
		if !known {
			began = now
		}
		since[i] = began
		t.seen[threshold.Signal.Condition()] = now
		if now.Sub(began) < threshold.Grace {
			continue
		}
		due[i] = true
		if last, ok := t.measured[threshold.Signal]; !ok || o.Time.IsZero() || o.Time.After(last) {
			crossed = append(crossed, threshold)
		}
	}
	t.since, t.due = since, due
	for signal, o := range measured {
		t.measured[signal] = o.Time
	}
	maps.DeleteFunc(t.seen, func(_ corev1.NodeConditionType, at time.Time) bool { return at != now && now.Sub(at) >= t.transition })
	return Verdict{Pressures: slices.Sorted(maps.Keys(t.seen)), Crossed: crossed}
}

// Resolved reports whether everything that is measured is left in the amount that
// resolves its thresholds. It changes nothing.
func (t *Tracker) Resolved(measured Observations) bool {
	return !slices.ContainsFunc(t.thresholds, func(threshold Threshold) bool {
		o, ok := measured[threshold.Signal]
		return ok && threshold.met(o, true)
	})
}
