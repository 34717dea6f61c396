package probes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// letters writes outcomes as one letter each.
var letters = map[byte]Outcome{'s': Success, 'f': Failure, '?': Unknown, 'w': Warning}

func letterOf(o Outcome) byte {
	return map[Outcome]byte{Success: 's', Failure: 'f', Unknown: '?'}[o]
}

func TestTrackerValues(t *testing.T) {
	tests := []struct {
		name     string
		kind     Kind
		schedule Schedule
		seed     string
		// in are the outcomes of attempts, want the values after each.
		in, want string
		held     bool
	}{
		{name: "readiness starts as failure and turns at the first success", kind: Readiness, in: "fsf", want: "fss"},
		{name: "readiness fails at the third failure in a row", kind: Readiness, in: "sffsfff", want: "ssssssf"},
		{name: "readiness is never on hold", kind: Readiness, in: "sfffs", want: "sssfs"},
		{name: "success threshold", kind: Readiness, schedule: Schedule{SuccessThreshold: 2}, in: "sfss", want: "fffs"},
		{name: "failure threshold of one", kind: Readiness, schedule: Schedule{FailureThreshold: 1}, in: "sfs", want: "sfs"},
		{name: "a warning is a success", kind: Readiness, in: "w", want: "s"},
		{name: "unknown changes nothing", kind: Readiness, in: "s???", want: "ssss"},
		{name: "unknown does not break a row", kind: Readiness, in: "sf?f?f", want: "sssssf"},
		{name: "liveness starts as success", kind: Liveness, in: "?", want: "s"},
		{name: "liveness is on hold after it failed", kind: Liveness, in: "fffsss", want: "ssffff", held: true},
		{name: "liveness goes on after success", kind: Liveness, in: "sfsfsff", want: "sssssss"},
		{name: "startup starts as unknown", kind: Startup, in: "ff", want: "??"},
		{name: "startup is over after success", kind: Startup, in: "fsfff", want: "?ssss", held: true},
		{name: "startup is over after failure", kind: Startup, in: "fffs", want: "??ff", held: true},
		{name: "seeded ready stays ready until the threshold", kind: Readiness, seed: "s", in: "fff", want: "ssf"},
		{name: "seeded unknown stays unknown until a threshold", kind: Readiness, seed: "?", in: "fff", want: "??f"},
		{name: "seeded unknown turns at the first success", kind: Readiness, seed: "?", in: "s", want: "s"},
		{name: "seeded startup success is over", kind: Startup, seed: "s", in: "fff", want: "sss", held: true},
		{name: "seeded startup unknown runs", kind: Startup, seed: "?", in: "fs", want: "?s", held: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := NewTracker(tt.kind, tt.schedule)
			if tt.seed != "" {
				tr.Seed(letters[tt.seed[0]])
			}
			var got strings.Builder
			for _, c := range []byte(tt.in) {
				before := tr.Value()
				changed := tr.Observe(letters[c])
				if changed != (before != tr.Value()) {
					t.Errorf("Observe(%c) = %t, value was %v and is %v", c, changed, before, tr.Value())
				}
				got.WriteByte(letterOf(tr.Value()))
			}
			if diff := cmp.Diff(tt.want, got.String()); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if tr.Held() != tt.held {
				t.Errorf("Held() = %t, want %t", tr.Held(), tt.held)
			}
		})
	}
}

func TestTrackerCountsAfreshAfterHold(t *testing.T) {
	tr := NewTracker(Liveness, Schedule{FailureThreshold: 2})
	tr.Observe(Failure)
	tr.Observe(Failure)
	if _, n := tr.Streak(); n != 0 || !tr.Held() {
		t.Errorf("streak is %d, held is %t; want 0, true", n, tr.Held())
	}
}

func TestTrackerQuiet(t *testing.T) {
	tests := []struct {
		kind Kind
		in   string
		want Outcome
		held bool
	}{
		{Startup, "ff", Success, true},
		{Startup, "fff", Success, true},
		{Liveness, "fff", Success, true},
		{Readiness, "s", Success, false},
		{Readiness, "f", Failure, false},
	}
	for _, tt := range tests {
		t.Run(tt.kind.String()+" "+tt.in, func(t *testing.T) {
			tr := NewTracker(tt.kind, Schedule{})
			for _, c := range []byte(tt.in) {
				tr.Observe(letters[c])
			}
			tr.Quiet()
			if tr.Value() != tt.want || tr.Held() != tt.held {
				t.Errorf("value %v, held %t; want %v, %t", tr.Value(), tr.Held(), tt.want, tt.held)
			}
		})
	}
}
