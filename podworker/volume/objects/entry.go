package objects

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// entry is one object that pods refer to. The store's mutex guards all of it but key,
// life and wanted.
type entry struct {
	key key
	// life ends when no pod refers to the object any more; stop ends it. They are nil
	// until somebody follows the object.
	life context.Context //nolint:containedctx // the life of the goroutine that follows, handed to it
	stop context.CancelFunc
	// wanted asks whoever follows the object to read it anew.
	wanted chan struct{}

	// users are the pods, each with the number of the read that is new enough for it.
	users map[types.UID]uint64
	// demands numbers the reads that were asked for, tried is the newest that has ended,
	// well or not.
	demands, tried uint64
	// known is true once a read has succeeded. object is then what was found, nil if
	// there is none.
	known  bool
	object metav1.Object
	// err is why the last read failed, nil if it did not.
	err error
	// changed is closed and replaced when any of that changes.
	changed chan struct{}
}

func newEntry(k key) *entry {
	return &entry{key: k, wanted: make(chan struct{}, 1), users: map[types.UID]uint64{}, changed: make(chan struct{})}
}

// demand asks for a read that is new enough for a new user.
func (e *entry) demand(pod types.UID) {
	e.demands++
	e.users[pod] = e.demands
	signal(e.wanted)
}

// serves reports whether a user need not wait.
func (e *entry) serves(pod types.UID) bool { return e.known && e.tried >= e.users[pod] }

func (e *entry) broadcast() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// version tells one state of the object from another.
func (e *entry) version() string {
	if e.object == nil {
		return ""
	}
	return string(e.object.GetUID()) + "/" + e.object.GetResourceVersion()
}

// begin returns the number of the read that begins now.
func (s *Store) begin(e *entry) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.demands
}

// failed takes in that the read of a number failed.
func (s *Store) failed(e *entry, number uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.tried, e.err = max(e.tried, number), err
	e.broadcast()
}

// found takes in what there is, by the read of a number, 0: by an event.
func (s *Store) found(e *entry, number uint64, object metav1.Object) {
	if object != nil {
		object.SetManagedFields(nil) // nobody reads them
	}
	for _, tell := range s.take(e, number, object) {
		tell()
	}
}

// take is found without telling anybody; it returns how.
func (s *Store) take(e *entry, number uint64, object metav1.Object) []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, late := e.version(), e.err != nil && !e.known
	was := e.known
	e.known, e.object, e.err = true, object, nil
	e.tried = max(e.tried, number)
	e.broadcast()
	if s.cfg.Changed == nil || !late && (!was || e.version() == before) {
		return nil
	}
	pods := slices.Sorted(maps.Keys(e.users))
	return []func(){func() { s.cfg.Changed(pods) }}
}
