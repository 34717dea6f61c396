package probes

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFollowingStaysOnTheGrid(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name             string
		due, now, period time.Duration
		want, skipping   time.Duration
	}{
		{"in time", 10 * s, 11 * s, 5 * s, 15 * s, 15 * s},
		{"at once", 10 * s, 10 * s, 5 * s, 15 * s, 15 * s},
		{"on the next point", 10 * s, 15 * s, 5 * s, 15 * s, 20 * s},
		{"a little after it", 10 * s, 15*s + 1, 5 * s, 15 * s, 20 * s},
		{"several points missed", 10 * s, 28 * s, 5 * s, 25 * s, 30 * s},
		{"before its time", 10 * s, 9 * s, 5 * s, 15 * s, 15 * s},
		{"moved to a tick", 10*s + 1, 11 * s, 5 * s, 15*s + tick, 15*s + tick},
		{"a period without ticks", 10*s + 1, 11 * s, 5*s + 1, 15*s + 2, 15*s + 2},
		{"a period shorter than a tick", 10*s + 1, 10*s + 2, tick / 2, 10*s + 1 + tick/2, 10*s + 1 + tick/2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := following(tt.due, tt.now, tt.period); got != tt.want {
				t.Errorf("following = %s, want %s", got, tt.want)
			}
			if got := skipping(tt.due, tt.now, tt.period); got != tt.skipping {
				t.Errorf("skipping = %s, want %s", got, tt.skipping)
			}
		})
	}
}

func TestScheduleDefaults(t *testing.T) {
	want := Schedule{
		Period:           10 * time.Second,
		EagerPeriod:      10 * time.Second,
		Timeout:          time.Second,
		SuccessThreshold: 1,
		FailureThreshold: 3,
	}
	if diff := cmp.Diff(want, Schedule{}.withDefaults()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestScheduleValidate(t *testing.T) {
	tests := []struct {
		name     string
		kind     Kind
		schedule Schedule
		want     string // part of the error; empty for none
	}{
		{name: "zero", kind: Liveness},
		{name: "negative delay", schedule: Schedule{InitialDelay: -1}, want: "InitialDelay"},
		{name: "negative period", schedule: Schedule{Period: -1}, want: "Period"},
		{name: "negative eager period", schedule: Schedule{EagerPeriod: -1}, want: "EagerPeriod"},
		{name: "negative timeout", schedule: Schedule{Timeout: -1}, want: "Timeout"},
		{name: "negative threshold", schedule: Schedule{FailureThreshold: -1}, want: "FailureThreshold"},
		{name: "negative success threshold", schedule: Schedule{SuccessThreshold: -1}, want: "SuccessThreshold"},
		{name: "liveness with two successes", kind: Liveness, schedule: Schedule{SuccessThreshold: 2}, want: "allows only 1"},
		{name: "readiness with two successes", kind: Readiness, schedule: Schedule{SuccessThreshold: 2}},
		{name: "below a second", kind: Readiness, schedule: Schedule{Period: time.Millisecond, Timeout: time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.schedule.validate(tt.kind)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}
