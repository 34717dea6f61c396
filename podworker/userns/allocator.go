package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// perPod is how many IDs a pod gets by default, which is also the least the API asks
// for (https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/).
const perPod = 1 << 16

// Config is how an [Allocator] works. Pods is required.
type Config struct {
	// Pods is the directory with a directory for each pod, named after its UID.
	Pods string
	// First and Length are the range that is shared among pods; both 0: everything from
	// PerPod on. See [ParseSubIDs].
	First, Length uint32
	// PerPod is how many IDs a pod gets, a multiple of 65536; 0: 65536.
	PerPod uint32
}

func (c *Config) complete() error {
	if c.PerPod == 0 {
		c.PerPod = perPod
	}
	if c.First == 0 && c.Length == 0 {
		c.First, c.Length = c.PerPod, -c.PerPod // up to the last ID, modulo 1<<32
	}
	switch {
	case c.Pods == "":
		return errors.New("Config.Pods is empty, want the directory of the pods")
	case c.PerPod%perPod != 0:
		return fmt.Errorf("Config.PerPod is %d, want a multiple of %d", c.PerPod, perPod)
	case c.First < c.PerPod || c.First%c.PerPod != 0:
		return fmt.Errorf("Config.First is %d, want a multiple of %d other than 0", c.First, c.PerPod)
	case c.Length < c.PerPod || c.Length%c.PerPod != 0:
		return fmt.Errorf("Config.Length is %d, want a multiple of %d other than 0", c.Length, c.PerPod)
	case uint64(c.First)+uint64(c.Length) > 1<<32:
		return fmt.Errorf("Config.First is %d and Length %d, want no IDs above %d", c.First, c.Length, uint32(1<<32-1))
	}
	return nil
}

// Range is the host IDs that the IDs of a pod from 0 on stand for.
type Range struct{ First, Length uint32 }

// Allocator gives each pod a range of its own.
type Allocator struct {
	cfg Config

	// mu guards the rest.
	mu    sync.Mutex
	byPod map[types.UID]Range
	taken map[uint32]types.UID // by the first ID
	next  uint32               // where to look first, so that ranges are not reused soon
}

// New returns an Allocator that knows the ranges of the pods on disk. A record that
// cannot be read is an error: its range may be in use.
func New(cfg Config) (*Allocator, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("userns: %w", err)
	}
	a := &Allocator{cfg: cfg, byPod: map[types.UID]Range{}, taken: map[uint32]types.UID{}, next: cfg.First}
	entries, err := os.ReadDir(cfg.Pods)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("userns: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		uid := types.UID(e.Name())
		r, err := readRecord(a.file(uid))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = a.take(uid, r)
		}
		if err != nil {
			return nil, fmt.Errorf("userns: record %s: %w", a.file(uid), err)
		}
	}
	return a, nil
}

// file returns where the range of a pod is recorded.
func (a *Allocator) file(uid types.UID) string {
	return filepath.Join(a.cfg.Pods, string(uid), "userns")
}

// take notes the range of a pod, unless it cannot be one.
func (a *Allocator) take(uid types.UID, r Range) error {
	switch other, found := a.taken[r.First]; {
	case r.Length != a.cfg.PerPod || r.First%a.cfg.PerPod != 0:
		return fmt.Errorf("%d IDs from %d on are no range of %d IDs", r.Length, r.First, a.cfg.PerPod)
	case r.First < a.cfg.First || r.First-a.cfg.First >= a.cfg.Length:
		return fmt.Errorf("IDs from %d on are not among the %d from %d on", r.First, a.cfg.Length, a.cfg.First)
	case found && other != uid:
		return fmt.Errorf("IDs from %d on are those of pod %s, too", r.First, other)
	}
	a.byPod[uid], a.taken[r.First] = r, uid
	return nil
}

// Get returns the range of a pod, a free one at first. It is on disk when Get returns.
func (a *Allocator) Get(uid types.UID) (Range, error) {
	if uid == "" || uid == "." || uid == ".." || strings.ContainsAny(string(uid), "/\x00") {
		return Range{}, fmt.Errorf("get user IDs of pod %q: the UID cannot be part of a path", uid)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.byPod[uid]; ok {
		return r, nil
	}
	r, ok := a.free()
	if !ok {
		return Range{}, fmt.Errorf("get user IDs of pod %s: all %d ranges are in use", uid, len(a.taken))
	}
	if err := writeRecord(a.file(uid), r); err != nil {
		return Range{}, fmt.Errorf("record user IDs of pod %s: %w", uid, err)
	}
	a.byPod[uid], a.taken[r.First] = r, uid
	a.next = r.First + a.cfg.PerPod
	return r, nil
}

// free returns a range nobody has, the next after the one given out last.
func (a *Allocator) free() (Range, bool) {
	n := a.cfg.Length / a.cfg.PerPod
	start := (a.next - a.cfg.First) / a.cfg.PerPod
	for i := range n {
		first := a.cfg.First + (start+i)%n*a.cfg.PerPod
		if _, used := a.taken[first]; !used {
			return Range{First: first, Length: a.cfg.PerPod}, true
		}
	}
	return Range{}, false
}

// Release gives the range of a pod back. Its record goes with the pod's directory,
// which is not for this package to remove.
func (a *Allocator) Release(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.taken, a.byPod[uid].First)
	delete(a.byPod, uid)
}
