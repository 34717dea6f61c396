//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Clean removes what is on disk of pods that keep does not name, nor SetUp was called for:
// those that went while no agent ran. keep has to name every pod that any source or the
// runtime has. The volumes of a pod are torn down first; a directory in which something
// stays mounted is left as it is, and below volumes/ nothing is removed then but empty
// directories. The error tells all pods of which something is left.
func (m *Manager) Clean(ctx context.Context, keep func(uid types.UID) bool) error {
	entries, err := os.ReadDir(m.dirs.pods())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for directories of pods that are gone: %w", err)
	}
	var errs []error
	for _, e := range entries {
		uid := types.UID(e.Name())
		if !e.IsDir() || keep(uid) || m.knows(uid) {
			continue
		}
		if err := m.cleanPod(ctx, uid); err != nil {
			errs = append(errs, err)
			continue
		}
		m.cfg.Log.Info("removed the directory of a pod that is gone", "uid", string(uid))
	}
	return errors.Join(errs...)
}

func (m *Manager) knows(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[uid]
	return r != nil && !r.leaving
}

// cleanTimeout is how long Clean waits for the volumes of one pod, so that one that hangs
// holds up no other.
const cleanTimeout = 10 * time.Second

// cleanPod removes the directory of one pod.
func (m *Manager) cleanPod(ctx context.Context, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	if err := m.TearDown(ctx, uid); err != nil {
		return fmt.Errorf("orphaned pod %q found, but volumes are not cleaned up: %w", uid, err)
	}
	dir := m.dirs.pod(uid)
	mounted, err := mountsBelow(dir)
	if err != nil {
		return fmt.Errorf("orphaned pod %q found, but its mounts are not known: %w", uid, err)
	}
	if len(mounted) > 0 {
		return fmt.Errorf("orphaned pod %q found, but a file system is mounted at %s", uid, mounted[0])
	}
	left, err := names(dir)
	if err != nil {
		return fmt.Errorf("orphaned pod %q found, but it cannot be read: %w", uid, err)
	}
	for _, name := range left {
		if name == "volumes" { // made again since
			return fmt.Errorf("orphaned pod %q found, but %s is there again", uid, filepath.Join(dir, name))
		}
		if err := removeTree(dir, name); err != nil {
			return fmt.Errorf("orphaned pod %q found, but it cannot be removed: %w", uid, err)
		}
	}
	if err := removeDir(dir); err != nil {
		return fmt.Errorf("orphaned pod %q found, but it cannot be removed: %w", uid, err)
	}
	return nil
}
