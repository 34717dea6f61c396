package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what the agent has to remember beyond what the runtime keeps. It is
// written before it is relied on.
type memory struct {
	path     string
	statuses *statuses

	mu   sync.Mutex // guards kept, also while it is written
	kept kept
}

// kept is the content of the file.
type kept struct {
	// Adopted are pods that another agent made and that this one runs on under
	// their UID. The value is the UID that the manifest would have had: while it is
	// the same, the manifest is.
	Adopted map[types.UID]string `json:"adopted,omitempty"`
	// Foreign are the pod directories that were in the root directory before this
	// agent was.
	Foreign []types.UID `json:"foreign,omitempty"`
}

// openMemory reads the file in the root directory. In a directory without an
// instance id it first notes which pods were there before.
func openMemory(root string) (*memory, error) {
	m := &memory{path: filepath.Join(root, memoryFile)}
	if _, err := os.Stat(filepath.Join(root, instanceFile)); errors.Is(err, fs.ErrNotExist) {
		return m, m.noteForeign(filepath.Join(root, "pods"))
	}
	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read adopted pods: %w", err)
	}
	if err := json.Unmarshal(data, &m.kept); err != nil {
		return nil, fmt.Errorf("read adopted pods from %s: %w; without the file, pods taken over from another agent are left alone", m.path, err)
	}
	return m, nil
}

// noteForeign stores the names of the directories in dir.
func (m *memory) noteForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read pod directories: %w", err)
	}
	m.kept = kept{}
	for _, e := range entries {
		m.kept.Foreign = append(m.kept.Foreign, types.UID(e.Name()))
	}
	return m.store(m.kept)
}

// adopt records that a pod is run on for a manifest.
func (m *memory) adopt(uid types.UID, manifest string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept.Adopted[uid] == manifest {
		return nil
	}
	next := kept{Adopted: maps.Clone(m.kept.Adopted), Foreign: m.kept.Foreign}
	if next.Adopted == nil {
		next.Adopted = map[types.UID]string{}
	}
	next.Adopted[uid] = manifest
	return m.storeLocked(next)
}

// drop forgets a pod of which nothing is left.
func (m *memory) drop(uid types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.kept.Adopted[uid]; !ok && !slices.Contains(m.kept.Foreign, uid) {
		return nil
	}
	next := kept{Adopted: maps.Clone(m.kept.Adopted)}
	delete(next.Adopted, uid)
	for _, f := range m.kept.Foreign {
		if f != uid {
			next.Foreign = append(next.Foreign, f)
		}
	}
	return m.storeLocked(next)
}

// adopted returns the adopted pods.
func (m *memory) adopted() map[types.UID]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.kept.Adopted)
}

// foreign reports whether the directory of a pod was there before this agent.
func (m *memory) foreign(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.kept.Foreign, uid)
}

// store is storeLocked for a caller without the lock.
func (m *memory) store(next kept) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.storeLocked(next)
}

// storeLocked writes next and, once that is done, remembers it.
func (m *memory) storeLocked(next kept) error {
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return fmt.Errorf("encode adopted pods: %w", err)
	}
	if err := writeFile(m.path, append(data, '\n')); err != nil {
		return fmt.Errorf("store adopted pods: %w", err)
	}
	m.kept = next
	return nil
}
