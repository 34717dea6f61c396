package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is how a spec ended.
type State string

const (
	// Passed is a spec that ran to its end without failure.
	Passed State = "passed"
	// Failed is a spec that failed, panicked or ran out of time.
	Failed State = "failed"
	// Skipped is a spec that found itself not to apply to this cluster.
	Skipped State = "skipped"
)

// Result is how one spec ended.
type Result struct {
	// Spec is the full name of the spec.
	Spec string `json:"spec"`
	// State is one of the constants above.
	State State `json:"state"`
	// Time is how long the spec took, rounded to tenths of a second. Zero when it is
	// not known.
	Time time.Duration `json:"time,omitempty"`
	// Message is the beginning of the failure, or the reason of a skip, on one line. Of a
	// spec that passed at the second try it is what it failed with at first.
	Message string `json:"message,omitempty"`
}

// parseState takes the states of this package.
func parseState(s string) (State, error) {
	switch state := State(s); state {
	case Passed, Failed, Skipped:
		return state, nil
	default:
		return "", fmt.Errorf("unknown state %q, want %s, %s or %s", s, Passed, Failed, Skipped)
	}
}

// Latest returns one result per spec, the last one of the list, in the order of names.
func Latest(results []Result) []Result {
	last := map[string]Result{}
	for _, r := range results {
		if before, ok := last[r.Spec]; ok {
			r = merge(before, r)
		}
		last[r.Spec] = r
	}
	latest := make([]Result, 0, len(last))
	for _, r := range last {
		latest = append(latest, r)
	}
	slices.SortFunc(latest, func(a, b Result) int { return cmp.Compare(a.Spec, b.Spec) })
	return latest
}

// secondTry begins the message of a spec that failed before it passed.
const secondTry = "at the second try: "

// SecondTry reports whether the spec failed before it passed.
func (r Result) SecondTry() bool { return r.State == Passed && strings.HasPrefix(r.Message, secondTry) }

// merge keeps what one of two reports of the same end knows and the other does not, and
// that a spec which passed had failed before.
func merge(before, after Result) Result {
	switch {
	case before.State == after.State:
		after.Time = cmp.Or(after.Time, before.Time)
		after.Message = cmp.Or(after.Message, before.Message)
	case before.State == Failed && after.State == Passed:
		after.Message = secondTry + before.Message
	}
	return after
}

// Missing returns the specs that have no result, in their order.
func Missing(specs []string, results []Result) []string {
	have := states(results)
	var missing []string
	for _, spec := range specs {
		if _, ok := have[spec]; !ok {
			missing = append(missing, spec)
		}
	}
	return missing
}

// In returns the results that are in the given state.
func In(results []Result, state State) []Result {
	var in []Result
	for _, r := range results {
		if r.State == state {
			in = append(in, r)
		}
	}
	return in
}

func states(results []Result) map[string]State {
	m := make(map[string]State, len(results))
	for _, r := range results {
		m[r.Spec] = r.State
	}
	return m
}
