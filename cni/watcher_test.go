package cni

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// conf is a configuration of one plugin.
func conf(name string) string {
	return `{"cniVersion":"1.0.0","name":"` + name + `","plugins":[{"type":"` + name + `"}]}`
}

func write(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func TestLoadTakesTheFirstInOrder(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string
		err   []string
	}{
		{"order of names", map[string]string{"20-b.conflist": conf("b"), "10-a.conf": `{"cniVersion":"0.3.1","name":"a","type":"a"}`, "30-c.json": conf("c")}, "a", nil},
		{"other names", map[string]string{"10-a.conflist.bak": conf("a"), ".09-x.conflist": conf("x"), "05-y.conflist.tmp123": conf("y"), "20-b.conflist": conf("b")}, "b", nil},
		{"a broken neighbour", map[string]string{"10-a.conflist": "{", "20-b.conflist": conf("b")}, "b", nil},
		{"plugins beside", map[string]string{"10-a.conflist": `{"cniVersion":"1.1.0","name":"a"}`, "a/20-two.conf": `{"type":"two"}`, "a/10-one.conf": `{"type":"one"}`, "a/note.txt": "x"}, "a", nil},
		{"all broken", map[string]string{"10-a.conflist": "{", "20-b.conf": ""}, "", []string{"10-a.conflist: line 1", "20-b.conf: the file is empty"}},
		{"broken plugin beside", map[string]string{"10-a.conflist": conf("a"), "a/10-one.conf": `{}`}, "", []string{"a/10-one.conf", "missing 'type'"}},
		{"none", map[string]string{"README": "x"}, "", []string{"has no *.conflist, *.conf or *.json"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range test.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, name), content)
			}
			n, err := Load(dir)
			if test.want != "" {
				if err != nil || n.Name != test.want {
					t.Fatalf("got %v, %v; want network %s", n, err, test.want)
				}
				if test.name == "plugins beside" && n.String() != "a (CNI 1.1.0: one, two)" {
					t.Errorf("plugins are %s", n)
				}
				return
			}
			if !errors.Is(err, ErrNoNetwork) {
				t.Fatalf("error is %v, want ErrNoNetwork", err)
			}
			for _, part := range test.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestLoadIsNotHeldUp(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "10-pipe.conf"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "15-huge.conf"), strings.Repeat(" ", maxConfig+1))
	if err := os.Symlink("nothing", filepath.Join(dir, "16-link.conf")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "17-dir.conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "20-a.conflist"), conf("a"))
	s := scan(dir, nil)
	var broken []string
	for _, f := range s.Files {
		if f.Err != nil {
			broken = append(broken, filepath.Base(f.Path)+": "+f.Err.Error())
		}
	}
	want := []string{
		"10-pipe.conf: is no regular file (prw-r--r--)", "15-huge.conf: is larger than 1048576 bytes",
		"17-dir.conf: is no regular file (drwxr-xr-x)",
	}
	if diff := cmp.Diff(want, broken); diff != "" || s.Network == nil {
		t.Errorf("network %v, broken (-want +got):\n%s", s.Network, diff)
	}
	if _, err := Load(filepath.Join(dir, "missing")); !errors.Is(err, ErrNoNetwork) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error is %v", err)
	}
}

// hand is an events that a test moves.
type hand struct {
	wake   chan struct{}
	closed bool
}

func (h *hand) Wake() <-chan struct{} { return h.wake }
func (h *hand) Follow()               {}
func (h *hand) Close() error          { h.closed = true; return nil }

// TestWatcherLevels goes through the life of a directory, one step after another.
func TestWatcherLevels(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "net.d")
	first, second := filepath.Join(dir, "10-a.conflist"), filepath.Join(dir, "20-b.conflist")
	steps := []struct {
		name    string
		do      func() error
		network string
		reason  Reason
		broken  string
	}{
		{"no directory", func() error { return nil }, "", NoDirectory, ""},
		{"empty directory", func() error { return os.Mkdir(dir, 0o755) }, "", NoFiles, ""},
		{"half a file", func() error { return os.WriteFile(first, []byte(conf("a")[:20]), 0o644) }, "", Broken, "unexpected end"},
		{"whole file", func() error { return os.WriteFile(first, []byte(conf("a")), 0o644) }, "a", 0, ""},
		{"another file", func() error { return os.WriteFile(second, []byte(conf("b")), 0o644) }, "a", 0, ""},
		{"the first breaks", func() error { return os.WriteFile(first, []byte("{"), 0o644) }, "a", 0, "unexpected end"},
		{"the first is emptied", func() error { return os.Truncate(first, 0) }, "a", 0, "the file is empty"},
		{"the first is replaced", func() error {
			return errors.Join(os.WriteFile(first+".tmp", []byte(conf("c")), 0o644), os.Rename(first+".tmp", first))
		}, "c", 0, ""},
		{"the first goes", func() error { return os.Remove(first) }, "b", 0, ""},
		{"the first comes back", func() error { return os.WriteFile(first, []byte(conf("a")), 0o644) }, "a", 0, ""},
		{"all go", func() error { return errors.Join(os.Remove(first), os.Remove(second)) }, "", NoFiles, ""},
		{"the directory goes", func() error { return os.Remove(dir) }, "", NoDirectory, ""},
	}
	synctest.Test(t, func(t *testing.T) {
		h := &hand{wake: make(chan struct{}, 1)}
		var seen []Selection
		w, err := newWatcher(dir, WatcherConfig{Changed: func(s Selection) { seen = append(seen, s) }}, func(string) (events, error) { return h, nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Network(); !errors.Is(err, ErrNoNetwork) || w.Selection().Reason != Unread {
			t.Errorf("before Run: %v, %v", err, w.Selection().Reason)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		for i, step := range steps {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				h.wake <- struct{}{}
			} else {
				pause(ctx, DefaultPeriod) // the event was missed
			}
			synctest.Wait()
			s := w.Selection()
			if name := nameOf(s.Network); name != step.network || s.Reason != step.reason || (s.Err == nil) != (s.Network != nil) {
				t.Errorf("%s: network %q, reason %v, %v; want %q, %v", step.name, name, s.Reason, s.Err, step.network, step.reason)
			}
			if broken := brokenOf(s); step.broken == "" && broken != "" || !strings.Contains(broken, step.broken) {
				t.Errorf("%s: broken %q, want %q", step.name, broken, step.broken)
			}
		}
		stop()
		if err := <-ended; err != nil || !h.closed {
			t.Errorf("Run: %v, closed %v", err, h.closed)
		}
		if len(seen) != len(steps) {
			t.Errorf("%d changes were reported, want one for each of %d steps", len(seen), len(steps))
		}
	})
}

func nameOf(n *Network) string {
	if n == nil {
		return ""
	}
	return n.Name
}

func brokenOf(s Selection) string {
	for _, f := range s.Files {
		if f.Err != nil {
			return f.Err.Error()
		}
	}
	return ""
}

func TestWatcherWithoutEvents(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWatcher(dir, WatcherConfig{Period: time.Minute}, func(string) (events, error) { return nil, errors.New("no more instances") })
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = w.Run(ctx) }()
		synctest.Wait()
		write(t, filepath.Join(dir, "a.conf"), conf("a"))
		pause(ctx, time.Minute)
		synctest.Wait()
		if n, err := w.Network(); err != nil || n.Name != "a" {
			t.Errorf("network %v, %v; want a", n, err)
		}
	})
}

// TestInotify follows a directory through real events; the period is too long to
// help.
func TestInotify(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "net.d")
	changes := make(chan string, 16)
	w, err := NewWatcher(dir, WatcherConfig{Period: time.Hour, Changed: func(s Selection) { changes <- nameOf(s.Network) + "/" + s.Reason.String() }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	next := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-changes:
				if got == want {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("no change to %s after 20s; it is %+v", want, w.Selection())
			}
		}
	}
	next("/NoConfigurationDirectory")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	next("/NoConfiguration")
	write(t, filepath.Join(dir, ".tmp"), conf("a"))
	if err := os.Rename(filepath.Join(dir, ".tmp"), filepath.Join(dir, "10-a.conflist")); err != nil {
		t.Fatal(err)
	}
	next("a/Ready")
	// Another directory takes its place.
	other := filepath.Join(parent, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(dir, filepath.Join(parent, "old")), os.Rename(other, dir)); err != nil {
		t.Fatal(err)
	}
	next("/NoConfiguration")
	write(t, filepath.Join(dir, "10-b.conflist"), conf("b"))
	next("b/Ready")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
