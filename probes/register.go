package probes

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// register holds the containers of an Engine.
type register struct {
	byID  map[string]*entry
	byPod map[types.UID][]*entry
	// orphans are the probes of dropped containers whose prober is still at work.
	orphans map[orphan]struct{}
}

// orphan names a probe of a container.
type orphan struct {
	id   string
	kind Kind
}

func newRegister() register {
	return register{
		byID:    make(map[string]*entry),
		byPod:   make(map[types.UID][]*entry),
		orphans: make(map[orphan]struct{}),
	}
}

func (r *register) add(en *entry) {
	r.byID[en.ref.ID] = en
	r.byPod[en.ref.UID] = append(r.byPod[en.ref.UID], en)
}

// drop forgets en, except for the probers of it that are at work.
func (r *register) drop(en *entry) {
	en.gone = true
	for _, w := range en.workers {
		if w != nil && w.flight.cancel != nil {
			r.orphans[w.orphan()] = struct{}{}
		}
	}
	delete(r.byID, en.ref.ID)
	rest := slices.DeleteFunc(r.byPod[en.ref.UID], func(other *entry) bool { return other == en })
	if len(rest) == 0 {
		delete(r.byPod, en.ref.UID)
		return
	}
	r.byPod[en.ref.UID] = rest
}

// orphaned reports whether a prober is still at work for an earlier addition of the
// same container.
func (r *register) orphaned(w *worker) bool {
	if len(r.orphans) == 0 {
		return false
	}
	_, found := r.orphans[w.orphan()]
	return found
}

// returned takes in that the prober of w has returned.
func (r *register) returned(w *worker) {
	if w.entry.gone {
		delete(r.orphans, w.orphan())
	}
}

func (w *worker) orphan() orphan { return orphan{w.entry.ref.ID, w.kind} }
