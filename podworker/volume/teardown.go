//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// undoing is one try to tear down the volumes of a pod.
type undoing struct {
	done chan struct{} // closed at the end
	err  error         // valid then
}

// TearDown undoes all volumes of a pod and the mounts of its sub-paths, and removes what
// was in those that are the pod's alone. It goes by what is on disk, so that it works for pods
// that nobody knows any more. It returns nil when nothing is left. Something that hangs
// makes it fail when ctx ends; it goes on meanwhile, and a later call waits for the same.
// From the first call on until it has succeeded, nothing is set up for the pod.
func (m *Manager) TearDown(ctx context.Context, uid types.UID) error {
	if !isElement(uid) {
		return nil // such a pod was refused and has none
	}
	u := m.leave(ctx, uid)
	select {
	case <-u.done:
		if u.err != nil {
			return fmt.Errorf("tear down volumes of pod %s: %w", uid, u.err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("tear down volumes of pod %s: %w while %s", uid, ctx.Err(), m.waitsFor(uid))
	}
}

// leave notes that the volumes of a pod go, ends what still sets some up, and begins to
// tear down unless somebody has.
func (m *Manager) leave(ctx context.Context, uid types.UID) *undoing {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[uid]
	if r == nil {
		r = &record{}
		m.pods[uid] = r
	}
	if r.undo != nil {
		return r.undo
	}
	r.leaving = true
	var running []*attempt
	for _, s := range r.volumes {
		s.touch()
		if s.running != nil {
			s.running.cancel()
			running = append(running, s.running)
		}
	}
	u := &undoing{done: make(chan struct{})}
	r.undo = u
	ctx = context.WithoutCancel(ctx)
	m.goLocked(func() {
		for _, a := range running {
			<-a.done
		}
		ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
		defer cancel()
		err := m.undo(ctx, uid)
		m.mu.Lock()
		defer m.mu.Unlock()
		u.err, r.undo = err, nil
		if err == nil {
			delete(m.pods, uid)
		}
		close(u.done)
	})
	return u
}

// waitsFor says what has not ended of a pod that is torn down.
func (m *Manager) waitsFor(uid types.UID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var busy []string
	if r := m.pods[uid]; r != nil {
		for name, s := range r.volumes {
			if s.running != nil {
				busy = append(busy, name)
			}
		}
	}
	if len(busy) == 0 {
		return "volumes are being unmounted"
	}
	slices.Sort(busy)
	return fmt.Sprintf("the set-up of volumes %v has not ended", busy)
}

// undo tears down what it finds on disk: sub-paths first, which hold the volumes.
func (m *Manager) undo(ctx context.Context, uid types.UID) error {
	if err := m.undoSubPaths(ctx, uid); err != nil {
		return err
	}
	errs := make([]error, len(m.cfg.Providers)+1)
	var working sync.WaitGroup
	for i, p := range m.cfg.Providers {
		working.Go(func() { errs[i] = p.TearDown(ctx, uid) })
	}
	working.Go(func() { errs[len(errs)-1] = m.undoOwn(ctx, uid) })
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return m.removeEmpty(uid)
}

// undoSubPaths unmounts the sub-paths of a pod and removes the places they were bound to.
func (m *Manager) undoSubPaths(ctx context.Context, uid types.UID) error {
	dir := m.dirs.subPaths(uid)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := m.mounter.Unmount(ctx, dir); err != nil {
		return err
	}
	return removePlaces(dir)
}

// undoOwn tears down the volumes that the manager set up.
func (m *Manager) undoOwn(ctx context.Context, uid types.UID) error {
	volumes, err := m.dirs.onDisk(uid)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range volumes {
		if isOwn(v.plugin) {
			errs = append(errs, m.undoVolume(ctx, uid, v))
		}
	}
	return errors.Join(errs...)
}

// undoVolume unmounts a volume if it is mounted, and removes its directory with all in it.
// The mark that it was complete goes first.
func (m *Manager) undoVolume(ctx context.Context, uid types.UID, v diskVolume) error {
	mark := v.name
	if v.plugin != emptyDirPlugin {
		mark = wrappedPrefix + v.name
	}
	if err := removeTree(filepath.Dir(m.dirs.meta(uid, mark)), mark); err != nil {
		return err
	}
	dir := m.dirs.volume(uid, v.plugin, v.name)
	mounted, err := isMountPoint(dir)
	if err != nil {
		return err
	}
	if !mounted {
		err = removeTree(filepath.Dir(dir), v.name)
		if !errors.Is(err, errMounted) {
			return err
		}
		// A container has mounted something in it and has let it out.
	}
	if err := m.mounter.Unmount(ctx, dir); err != nil {
		return err
	}
	return removeTree(filepath.Dir(dir), v.name)
}

// removeEmpty removes the directories around the volumes of a pod. Of plugins that nobody
// knows it removes directories that are empty, never more.
func (m *Manager) removeEmpty(uid types.UID) error {
	volumes, err := m.dirs.onDisk(uid)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range volumes {
		path := m.dirs.volume(uid, v.plugin, v.name)
		if err := removeDir(path); err != nil {
			errs = append(errs, fmt.Errorf("failed to rmdir() volume at path %v: %w", path, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	plugins, err := names(m.dirs.volumes(uid))
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		errs = append(errs, removeDir(filepath.Join(m.dirs.volumes(uid), plugin)))
	}
	return errors.Join(append(errs, removeDir(m.dirs.volumes(uid)))...)
}

// nothingIn reports whether no volume of a pod is on disk. What cannot be read counts as
// one.
func (m *Manager) nothingIn(uid types.UID) bool {
	volumes, err := m.dirs.onDisk(uid)
	places, err2 := names(m.dirs.subPaths(uid))
	return err == nil && err2 == nil && len(volumes) == 0 && len(places) == 0
}
