package probes

import "time"

// timers is a heap of workers, ordered by the time at which each wants attention.
// Each worker knows its place, so that it can be moved or removed.
type timers []*worker

// off is the place of a worker that is not in the heap.
const off = -1

// arity is the number of children of a node: four halve the depth and keep
// siblings in one cache line.
const arity = 4

// next returns the earliest worker, nil when there is none.
func (h timers) next() *worker {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// set puts w in the heap at the given time, or moves it there.
func (h *timers) set(w *worker, at time.Duration) {
	if w.place == off {
		w.place = len(*h)
		*h = append(*h, w)
	}
	earlier := at < w.at
	w.at = at
	if earlier || !h.down(w.place) {
		h.up(w.place)
	}
}

// remove takes w out of the heap; a worker that is not in it stays out.
func (h *timers) remove(w *worker) {
	i := w.place
	if i == off {
		return
	}
	last := len(*h) - 1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	w.place = off
	if i < last && !h.down(i) {
		h.up(i)
	}
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / arity
		if h[i].at >= h[parent].at {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down reports whether the worker at i moved.
func (h timers) down(i int) bool {
	start := i
	for {
		least := i
		first := i*arity + 1
		for child := first; child < min(first+arity, len(h)); child++ {
			if h[child].at < h[least].at {
				least = child
			}
		}
		if least == i {
			return i != start
		}
		h.swap(i, least)
		i = least
	}
}
