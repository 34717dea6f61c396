package probes

import "time"

// timers is a heap of workers, ordered by the time at which each wants attention.
// Each worker knows its place, so that it can be moved or removed. The times stand
// in the heap itself: looking for the least of some siblings stays within one cache
// line.
type timers []timed

// timed is a worker in the heap.
type timed struct {
	at time.Duration
	w  *worker
}

// off is the place of a worker that is not in the heap.
const off = -1

// arity is the number of children of a node: as many as fit into a cache line.
const arity = 4

// due returns a worker whose time has come at now, nil when there is none.
func (h timers) due(now time.Duration) *worker {
	if len(h) == 0 || h[0].at > now {
		return nil
	}
	return h[0].w
}

// next returns the earliest time, and whether there is one.
func (h timers) next() (time.Duration, bool) {
	if len(h) == 0 {
		return 0, false
	}
	return h[0].at, true
}

// set puts w in the heap at the given time, or moves it there. It reports whether w
// now comes first.
func (h *timers) set(w *worker, at time.Duration) bool {
	if w.place == off {
		w.place = len(*h)
		*h = append(*h, timed{at, w})
		h.up(w.place)
		return w.place == 0
	}
	later := at > (*h)[w.place].at
	(*h)[w.place].at = at
	if later {
		h.down(w.place)
	} else {
		h.up(w.place)
	}
	return w.place == 0
}

// remove takes w out of the heap; a worker that is not in it stays out.
func (h *timers) remove(w *worker) {
	i := w.place
	if i == off {
		return
	}
	last := len(*h) - 1
	moved := (*h)[last]
	(*h)[last] = timed{}
	*h = (*h)[:last]
	w.place = off
	if i == last {
		return
	}
	(*h)[i] = moved
	moved.w.place = i
	h.down(i)
	h.up(moved.w.place)
}

// up moves the worker at i to where it belongs, if that is nearer to the root.
func (h timers) up(i int) {
	moving := h[i]
	for i > 0 {
		parent := (i - 1) / arity
		if moving.at >= h[parent].at {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	h.put(i, moving)
}

// down moves the worker at i to where it belongs, if that is farther from the root.
func (h timers) down(i int) {
	moving := h[i]
	for {
		first := i*arity + 1
		if first >= len(h) {
			break
		}
		least := first
		for child := first + 1; child < min(first+arity, len(h)); child++ {
			if h[child].at < h[least].at {
				least = child
			}
		}
		if moving.at <= h[least].at {
			break
		}
		h.put(i, h[least])
		i = least
	}
	h.put(i, moving)
}

func (h timers) put(i int, t timed) {
	h[i] = t
	t.w.place = i
}
