package staticpods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The tests of this file wait for real events of the kernel. No look is due
// before the deadline, so that only an event can bring a set.
const (
	noLook   = time.Hour
	deadline = 30 * time.Second
)

// live runs a source with inotify and returns what it delivers, by the names of
// pods.
func live(t *testing.T, path string) <-chan []string {
	t.Helper()
	source, err := Dir(path, Config{NodeName: "node-a", Period: noLook, Settle: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	sets := make(chan []string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- source.Run(ctx, func(s Set) {
			names := []string{}
			for _, p := range s.Pods {
				names = append(names, p.Name+" "+p.Spec.Containers[0].Env[0].Value)
			}
			sets <- names
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return sets
}

// wantSet waits until the set is the wanted one.
func wantSet(t *testing.T, sets <-chan []string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	var last []string
	for timeout := time.After(deadline); ; {
		select {
		case last = <-sets:
			if cmp.Equal(want, last) {
				return
			}
		case <-timeout:
			t.Fatalf("no such set within %s (-want +last):\n%s", deadline, cmp.Diff(want, last))
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func writeFile(path, name, gen string) error {
	return os.WriteFile(path, []byte(web(name, gen)), 0o644)
}

func TestEventsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "web.yaml")
	sets := live(t, dir)
	wantSet(t, sets)
	must(t, writeFile(file, "web", "1"))
	wantSet(t, sets, "web-node-a 1")
	must(t, writeFile(filepath.Join(dir, ".tmp"), "web", "2"), os.Rename(filepath.Join(dir, ".tmp"), file))
	wantSet(t, sets, "web-node-a 2")
	must(t, writeFile(file, "web", "3"))
	wantSet(t, sets, "web-node-a 3")
	must(t, os.Remove(file))
	wantSet(t, sets)
}

func TestEventsOfASwappedMount(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	swap := func(gen string) {
		t.Helper()
		must(t, os.Mkdir(at(".."+gen), 0o755), writeFile(at(".."+gen+"/web.yaml"), "web", gen),
			os.Symlink(".."+gen, at("..tmp")), os.Rename(at("..tmp"), at("..data")))
	}
	swap("1")
	must(t, os.Symlink("..data/web.yaml", at("web.yaml")))
	sets := live(t, dir)
	wantSet(t, sets, "web-node-a 1")
	swap("2")
	wantSet(t, sets, "web-node-a 2")
}

func TestEventsOfAPathThatComesAndGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	sets := live(t, dir)
	wantSet(t, sets)
	must(t, os.Mkdir(dir, 0o755), writeFile(filepath.Join(dir, "web.yaml"), "web", "1"))
	wantSet(t, sets, "web-node-a 1")
	must(t, os.Rename(dir, dir+".bak"))
	wantSet(t, sets)
	must(t, os.Rename(dir+".bak", dir), writeFile(filepath.Join(dir, "web.yaml"), "web", "2"))
	wantSet(t, sets, "web-node-a 2")
	must(t, writeFile(filepath.Join(dir, "web.yaml"), "web", "3"))
	wantSet(t, sets, "web-node-a 3")
}

func TestEventsOfALinkThatTurnsToAnotherDirectory(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must(t, os.Mkdir(at("v1"), 0o755), os.Mkdir(at("v2"), 0o755), os.Symlink("v1", at("current")))
	must(t, writeFile(at("v1/web.yaml"), "web", "1"), writeFile(at("v2/web.yaml"), "web", "2"))
	sets := live(t, at("current"))
	wantSet(t, sets, "web-node-a 1")
	must(t, os.Symlink("v2", at("next")), os.Rename(at("next"), at("current")))
	wantSet(t, sets, "web-node-a 2")
	must(t, writeFile(at("v2/web.yaml"), "web", "3")) // the watch has moved with the link
	wantSet(t, sets, "web-node-a 3")
}

func TestEventsOfASingleFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.pod")
	must(t, writeFile(file, "web", "1"))
	sets := live(t, file)
	wantSet(t, sets, "web-node-a 1")
	for _, gen := range []string{"2", "3"} {
		must(t, writeFile(file+".new", "web", gen), os.Rename(file+".new", file))
		wantSet(t, sets, "web-node-a "+gen)
	}
	must(t, writeFile(file, "web", "4"))
	wantSet(t, sets, "web-node-a 4")
	must(t, os.Remove(file))
	wantSet(t, sets)
}
