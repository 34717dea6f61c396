package staticpods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeWatcher wakes the source when the test says so.
type fakeWatcher struct {
	wake    chan struct{}
	removed func() []string // nil: nothing
	follow  func() bool     // nil: nothing new to follow
}

func (w *fakeWatcher) Wake() <-chan struct{} { return w.wake }
func (w *fakeWatcher) Follow(uint64, uint64) (bool, error) {
	return w.follow != nil && w.follow(), nil
}

func (w *fakeWatcher) Removed() []string {
	if w.removed == nil {
		return nil
	}
	return w.removed()
}

func (w *fakeWatcher) Close() error { return nil }

// bench runs a source on a temporary directory inside a synctest bubble.
type bench struct {
	t      *testing.T
	dir    string
	source *Source
	wake   chan struct{}

	mu   sync.Mutex // guards the fields below
	sets []Set
	gone []string // what the watcher says was removed
}

// newBench starts a source of the directory; prepare fills it before.
func newBench(t *testing.T, cfg Config, prepare func(b *bench)) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(t.TempDir(), "manifests"), wake: make(chan struct{}, 1)}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(b)
	}
	if cfg.NodeName == "" {
		cfg.NodeName = "node-a"
	}
	source, err := newSource(b.dir, cfg, func(string) (watcher, error) { return &fakeWatcher{wake: b.wake, removed: b.removed}, nil })
	if err != nil {
		t.Fatal(err)
	}
	b.source = source
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- source.Run(ctx, b.take) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return b
}

func (b *bench) take(s Set) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sets = append(b.sets, s)
}

// delivered returns all sets so far.
func (b *bench) delivered() []Set {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sets)
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// write replaces the content of a file in place and wakes the source.
func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.event()
}

func (b *bench) remove(name string) {
	b.t.Helper()
	if err := os.RemoveAll(b.path(name)); err != nil {
		b.t.Fatal(err)
	}
	b.event()
}

// putBack removes a file and writes it at once, without a look between.
func (b *bench) putBack(name, text string) {
	b.t.Helper()
	if err := os.Remove(b.path(name)); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	b.gone = append(b.gone, b.path(name))
	b.mu.Unlock()
	b.write(name, text)
}

func (b *bench) removed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := b.gone
	b.gone = nil
	return gone
}

func (b *bench) event() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// after lets time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
	synctest.Wait()
}

// pods returns the set in force, like "default/web-node-a GEN=1".
func (b *bench) pods() []string {
	var got []string
	sets := b.delivered()
	if len(sets) == 0 {
		return nil
	}
	for _, p := range sets[len(sets)-1].Pods {
		got = append(got, fmt.Sprintf("%s GEN=%s", fullName(p), p.Spec.Containers[0].Env[0].Value))
	}
	return got
}

// states returns the statuses, like "web.yaml ok" and "web.yaml invalid kept".
func (b *bench) states() []string {
	var got []string
	for _, s := range b.source.Statuses() {
		line := filepath.Base(s.Path) + " " + s.State.String()
		if s.Kept {
			line += " kept"
		}
		got = append(got, line)
	}
	return got
}

func (b *bench) wantPods(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.pods()); diff != "" {
		b.t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func (b *bench) wantStates(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.states()); diff != "" {
		b.t.Errorf("states (-want +got):\n%s", diff)
	}
}

// web is a manifest whose variable GEN tells its versions apart.
func web(name, gen string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers:
  - name: app
    image: img.example/shell:1
    env: [{name: GEN, value: "%s"}]
`, name, gen)
}
