package objects

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// entry is one object that pods refer to. The store's mutex guards all of it but name
// and wanted.
type entry struct {
	name volume.Object
	// wanted asks whoever follows the object to read it anew.
	wanted chan struct{}
	// stop ends the follower, nil before there is one.
	stop context.CancelFunc

	// users are the pods, each with the number of the read that is new enough for it.
	users map[types.UID]uint64
	// demands numbers the reads that were asked for. tried is the newest of them that has
	// ended, well or not.
	demands, tried uint64
	// known is true once a read has succeeded. object is then what was found, nil if
	// there is none.
	known  bool
	object metav1.Object
	// err is why the last read failed, nil if it did not.
	err error
	// changed is closed and replaced when any of that has changed.
	changed chan struct{}
}

func newEntry(name volume.Object) *entry {
	return &entry{name: name, wanted: make(chan struct{}, 1), users: map[types.UID]uint64{}, changed: make(chan struct{})}
}

// demand asks for a read that is new enough for a new user.
func (e *entry) demand(pod types.UID) {
	e.demands++
	e.users[pod] = e.demands
	signal(e.wanted)
}

// triedFor reports whether a read that is new enough for a user has ended.
func (e *entry) triedFor(pod types.UID) bool { return e.tried >= e.users[pod] }

// broadcast wakes all that wait.
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
	select {
	case <-e.wanted: // this read is it
	default:
	}
	return e.demands
}

// failed takes in that the read of a number failed, and reports whether it is the first
// since one did not.
func (s *Store) failed(e *entry, number uint64, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := e.err == nil
	e.tried, e.err = max(e.tried, number), err
	e.broadcast()
	return first
}

// found takes in what there is, by the read of a number; 0: by an event.
func (s *Store) found(e *entry, number uint64, object metav1.Object) {
	if object != nil {
		object.SetManagedFields(nil) // nobody reads them
	}
	if pods := s.take(e, number, object); s.cfg.Changed != nil && len(pods) > 0 {
		s.cfg.Changed(e.name, pods)
	}
}

// take is found without telling anybody. It returns whom to tell: pods that were told of
// another state before, or that there was none yet.
func (s *Store) take(e *entry, number uint64, object metav1.Object) []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, before, refused := e.known, e.version(), e.err != nil
	e.known, e.object, e.err = true, object, nil
	e.tried = max(e.tried, number)
	e.broadcast()
	if was && e.version() == before || !was && !refused {
		return nil
	}
	return slices.Sorted(maps.Keys(e.users))
}
