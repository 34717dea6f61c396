package probes

import "k8s.io/apimachinery/pkg/types"

// turns is the queue of workers that wait until a command may run. Pods take
// turns, so that one with many probes does not keep the others waiting; within a
// pod, the first come is served first.
type turns struct {
	byPod map[types.UID]*line
	ring  []*line
}

// line holds the waiting workers of one pod.
type line struct {
	pod     types.UID
	workers []*worker
}

// push adds w at the end of the line of its pod.
func (t *turns) push(w *worker) {
	pod := w.entry.ref.UID
	l := t.byPod[pod]
	if l == nil {
		l = &line{pod: pod}
		if t.byPod == nil {
			t.byPod = make(map[types.UID]*line)
		}
		t.byPod[pod] = l
		t.ring = append(t.ring, l)
	}
	l.workers = append(l.workers, w)
}

// pop removes and returns the worker whose turn it is, nil when none waits.
// Workers that no longer wait are dropped.
func (t *turns) pop() *worker {
	for len(t.ring) > 0 {
		l := t.ring[0]
		w := l.workers[0]
		l.workers[0] = nil
		l.workers = l.workers[1:]
		t.ring = t.ring[1:]
		if len(l.workers) > 0 {
			t.ring = append(t.ring, l)
		} else {
			delete(t.byPod, l.pod)
		}
		if w.state == queued {
			return w
		}
	}
	t.ring = nil
	return nil
}
