package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// volumes are the persistent volumes that pods of this node use, or that something is
// left of.
type volumes struct {
	mu   sync.Mutex // guards the fields below, and those of state
	byID map[volumeID]*state
	// told is what the Node says of the volumes that are in use.
	told map[corev1.UniqueVolumeName]bool
	// changed is closed and replaced when told changes.
	changed chan struct{}
}

// state is what is known about a volume.
type state struct {
	// turn holds one value: who takes it may call the driver about the volume.
	turn chan struct{}
	// users are the pods that may have it, by UID.
	users map[types.UID]bool
	// attached: it is attached to the node before it is used. It is assumed until it is
	// known.
	attached bool
	// block and spec say where it is staged.
	block bool
	spec  string
	// found: an agent before this one left something of it.
	found bool
	// staged is what this process staged and did not begin to unstage, guarded by turn.
	staged bool
	// published is where this process published it, guarded by turn.
	published map[place]bool
	// grown is guarded by turn.
	grown grown
}

// place is a volume of a pod. Two persistent volumes may be one volume of a driver.
type place struct {
	uid  types.UID
	spec string
}

func newVolumes() *volumes {
	return &volumes{byID: map[volumeID]*state{}, told: map[corev1.UniqueVolumeName]bool{}, changed: make(chan struct{})}
}

// stateLocked returns what is known about a volume, and remembers it from now on.
func (v *volumes) stateLocked(id volumeID) *state {
	s := v.byID[id]
	if s == nil {
		s = &state{turn: make(chan struct{}, 1), users: map[types.UID]bool{}, published: map[place]bool{}, attached: true}
		s.turn <- struct{}{}
		v.byID[id] = s
	}
	return s
}

// use notes that a pod is about to have a volume.
func (v *volumes) use(w *wanted, attached bool) *state {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.stateLocked(w.id)
	s.users[w.pod.UID] = true
	s.attached, s.block, s.spec = attached, w.block, w.spec
	return s
}

// found notes what a record on disk says, of a volume that is named spec: that a pod has
// it, or with no UID that it is staged.
func (v *volumes) found(r record, uid types.UID, block bool, spec string) *state {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.stateLocked(r.id())
	s.found = true
	if uid != "" {
		s.users[uid] = true
	}
	if block {
		s.block, s.spec = true, spec
	}
	if r.Lifecycle == storagev1.VolumeLifecycleEphemeral {
		s.attached = false
	}
	return s
}

// release notes that a pod has nothing of a volume any more.
func (v *volumes) release(uid types.UID, keep map[volumeID]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, s := range v.byID {
		if !keep[id] {
			delete(s.users, uid)
		}
	}
}

// unused returns the volumes that no pod has any more.
func (v *volumes) unused() []volumeID {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []volumeID
	for id, s := range v.byID {
		if len(s.users) == 0 {
			out = append(out, id)
		}
	}
	return out
}

// get returns what is known about a volume, nil for nothing.
func (v *volumes) get(id volumeID) *state {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.byID[id]
}

// staging returns what says where a volume is staged, and whether nobody uses it.
func (v *volumes) staging(s *state) (block bool, spec string, unused bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return s.block, s.spec, len(s.users) == 0
}

// before reports whether an agent before this one left something of a volume.
func (v *volumes) before(s *state) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return s.found
}

// forget drops a volume that nothing is left of, unless a pod came.
func (v *volumes) forget(id volumeID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.byID[id]; s != nil && len(s.users) == 0 {
		delete(v.byID, id)
	}
}

// inUse returns the names of the volumes that must stay attached, sorted.
func (v *volumes) inUse() []corev1.UniqueVolumeName {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []corev1.UniqueVolumeName
	for id, s := range v.byID {
		if s.attached {
			out = append(out, id.unique())
		}
	}
	slices.Sort(out)
	return out
}

// reported notes what the Node says.
func (v *volumes) reported(names []corev1.UniqueVolumeName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	told := make(map[corev1.UniqueVolumeName]bool, len(names))
	for _, n := range names {
		told[n] = true
	}
	if maps.Equal(told, v.told) {
		return
	}
	v.told = told
	close(v.changed)
	v.changed = make(chan struct{})
}

// waitReported waits until the Node says that a volume is in use.
func (v *volumes) waitReported(ctx context.Context, name corev1.UniqueVolumeName) error {
	for {
		v.mu.Lock()
		told, changed := v.told[name], v.changed
		v.mu.Unlock()
		if told {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("volume %s has not been added to the list of VolumesInUse in the node's volume status: %w", name, ctx.Err())
		}
	}
}

// lock takes the turn of a volume; the returned function gives it back.
func (s *state) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case <-s.turn:
		return func() { s.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another operation on the volume: %w", ctx.Err())
	}
}
