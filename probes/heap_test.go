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
				if first := h.set(w, at); first != (h[0].w == w) {
					t.Fatalf("set says %t about coming first", first)
				}
				in[w] = at
			}
			if len(h) != len(in) {
				t.Fatalf("%d workers in the heap, want %d", len(h), len(in))
			}
			for i, entry := range h {
				if entry.w.place != i || entry.at != in[entry.w] {
					t.Fatalf("worker at %d thinks it is at %d, for %d, want %d", i, entry.w.place, entry.at, in[entry.w])
				}
			}
			next, ok := h.next()
			if !ok {
				continue
			}
			if want := slices.Min(values(in)); next != want || h.due(want) == nil || h.due(want-1) != nil {
				t.Fatalf("next is at %d, want %d", next, want)
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
