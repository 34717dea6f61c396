package probes

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The heap gives what a sorted list would.
func TestTimersAreAHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timers
		pool := make([]*worker, 40)
		for i := range pool {
			pool[i] = &worker{place: off}
		}
		in := map[*worker]time.Duration{}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			w := rapid.SampledFrom(pool).Draw(t, "worker")
			if rapid.IntRange(0, 3).Draw(t, "action") == 0 {
				h.remove(w)
				delete(in, w)
			} else {
				at := time.Duration(rapid.IntRange(0, 50).Draw(t, "at"))
				h.set(w, at)
				in[w] = at
			}
			if len(h) != len(in) {
				t.Fatalf("%d workers in the heap, want %d", len(h), len(in))
			}
			for i, w := range h {
				if w.place != i || w.at != in[w] {
					t.Fatalf("worker at %d thinks it is at %d, for %d, want %d", i, w.place, w.at, in[w])
				}
			}
			if next := h.next(); next != nil {
				if want := slices.Min(values(in)); next.at != want {
					t.Fatalf("next is at %d, want %d", next.at, want)
				}
			}
		}
	})
}

func values(m map[*worker]time.Duration) []time.Duration {
	var out []time.Duration
	for _, v := range m {
		out = append(out, v)
	}
	return out
}
