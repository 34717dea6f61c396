package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func manifest(name, clusterIP string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec:\n  clusterIP: %s\n  ports: [{port: 80}]\n", name, clusterIP)
}

// folder is a directory of manifests.
type folder struct {
	t    *testing.T
	path string
}

func (f folder) write(name, content string) {
	f.t.Helper()
	tmp := filepath.Join(f.path, "."+name+".tmp")
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(f.path, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) remove(name string) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.path, name)); err != nil {
		f.t.Fatal(err)
	}
}

func newTestDir(t *testing.T) (folder, *recorder, *Dir) {
	t.Helper()
	f := folder{t: t, path: filepath.Join(t.TempDir(), "services")}
	if err := os.Mkdir(f.path, 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	d, err := NewDir(f.path, r, DirConfig{Settle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return f, r, d
}

func problemsOf(d *Dir) []string {
	var out []string
	for _, p := range d.Problems() {
		p.Path = filepath.Base(p.Path)
		out = append(out, p.String())
	}
	return out
}

func TestDirDeliversDifferences(t *testing.T) {
	f, r, d := newTestDir(t)
	f.write("a.yaml", manifest("a", "10.96.0.1"))
	f.write("b.yml", manifest("b", "10.96.0.2"))
	f.write("notes.txt", "not a manifest")
	f.write(".hidden.yaml", manifest("hidden", "10.96.0.9"))
	if err := os.Mkdir(filepath.Join(f.path, "sub.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(f.path, "pipe.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.scan()
	r.expect(t, "set Service default/a 10.96.0.1", "set Service default/b 10.96.0.2", "synced")
	d.scan()
	r.expect(t, "synced")
	f.write("a.yaml", manifest("a", "10.96.0.3"))
	f.write("b.yml", "# moved\n"+manifest("b", "10.96.0.2"))
	d.scan()
	r.expect(t, "set Service default/a 10.96.0.3", "synced")
	f.remove("a.yaml")
	f.write("c.json", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"c"},"spec":{"clusterIP":"10.96.0.4"}}`)
	d.scan()
	r.expect(t, "delete Service default/a", "set Service default/c 10.96.0.4", "synced")
	if got := problemsOf(d); got != nil {
		t.Errorf("Problems() = %q, want none", got)
	}
}

func TestDirKeepsWhatABrokenFileSaid(t *testing.T) {
	f, r, d := newTestDir(t)
	f.write("a.yaml", manifest("a", "10.96.0.1"))
	f.write("bad.yaml", "apiVersion: v1\nkind: Service\nspec: {clusterIPP: x}\n")
	d.scan()
	r.expect(t, "set Service default/a 10.96.0.1", "synced")
	f.write("a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: [\n")
	f.write("b.yaml", manifest("b", "10.96.0.2"))
	d.scan()
	r.expect(t, "set Service default/b 10.96.0.2", "synced")
	got := strings.Join(problemsOf(d), "\n")
	for _, want := range []string{"a.yaml:", "stays in force", "bad.yaml:3: spec.clusterIPP: unknown field", "the file is not used"} {
		if !strings.Contains(got, want) {
			t.Errorf("Problems() lacks %q:\n%s", want, got)
		}
	}
	f.write("a.yaml", manifest("a", "10.96.0.1"))
	f.remove("bad.yaml")
	d.scan()
	r.expect(t, "synced")
	if got := problemsOf(d); got != nil {
		t.Errorf("Problems() = %q after the files are good again", got)
	}
	f.write("a.yaml", "not: [closed\n")
	d.scan()
	f.remove("a.yaml") // a file that is gone keeps nothing
	d.scan()
	r.expect(t, "delete Service default/a", "synced", "synced")
}

func TestDirTakesAnOpenEndForHalfWritten(t *testing.T) {
	f, r, d := newTestDir(t)
	two := manifest("a", "10.96.0.1") + "---\n" + manifest("b", "10.96.0.2")
	f.write("two.yaml", two)
	f.write("open.yaml", strings.TrimSpace(manifest("c", "10.96.0.3")))
	d.scan()
	r.expect(t, "set Service default/a 10.96.0.1", "set Service default/b 10.96.0.2", "set Service default/c 10.96.0.3", "synced")
	for _, half := range []string{"", manifest("a", "10.96.0.1") + "---", two[:len(two)-1]} {
		f.write("two.yaml", half)
		d.scan()
		r.expect(t, "synced")
		if got := problemsOf(d); len(got) != 1 || !strings.Contains(got[0], "half written") {
			t.Errorf("Problems() = %q for %q, want it called half written", got, half)
		}
	}
	f.write("open.yaml", strings.TrimSpace(manifest("c", "10.96.0.4"))) // never had a line break
	f.write("two.yaml", manifest("a", "10.96.0.1"))
	d.scan()
	r.expect(t, "delete Service default/b", "set Service default/c 10.96.0.4", "synced")
}

func TestDirFirstFileWins(t *testing.T) {
	f, r, d := newTestDir(t)
	f.write("b.yaml", manifest("web", "10.96.0.2"))
	d.scan()
	r.expect(t, "set Service default/web 10.96.0.2", "synced")
	f.write("a.yaml", manifest("web", "10.96.0.1"))
	d.scan()
	r.expect(t, "set Service default/web 10.96.0.1", "synced")
	want := []string{"b.yaml: Service default/web is ignored: it is also in " + filepath.Join(f.path, "a.yaml") + ", which comes first"}
	if diff := cmp.Diff(want, problemsOf(d)); diff != "" {
		t.Errorf("Problems() (-want +got):\n%s", diff)
	}
	f.remove("a.yaml")
	d.scan()
	r.expect(t, "set Service default/web 10.96.0.2", "synced")
}

func TestDirUnreadableKeepsEverything(t *testing.T) {
	f, r, d := newTestDir(t)
	f.write("a.yaml", manifest("a", "10.96.0.1"))
	if err := os.Rename(f.path, f.path+".away"); err != nil {
		t.Fatal(err)
	}
	d.scan()
	r.expect(t)
	if err := os.Rename(f.path+".away", f.path); err != nil {
		t.Fatal(err)
	}
	d.scan()
	r.expect(t, "set Service default/a 10.96.0.1", "synced")
	if err := os.Rename(f.path, f.path+".away"); err != nil {
		t.Fatal(err)
	}
	d.scan()
	r.expect(t)
	if got := problemsOf(d); len(got) != 1 || !strings.Contains(got[0], "stays in force") {
		t.Errorf("Problems() = %q, want the directory", got)
	}
}

// A ConfigMap volume shows files as links through "..data", which is swapped.
func TestDirFollowsDataLink(t *testing.T) {
	f, r, d := newTestDir(t)
	for i, version := range []string{"..v1", "..v2"} {
		if err := os.Mkdir(filepath.Join(f.path, version), 0o755); err != nil {
			t.Fatal(err)
		}
		content := manifest("a", fmt.Sprintf("10.96.0.%d", i+1))
		if err := os.WriteFile(filepath.Join(f.path, version, "a.yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(f.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..v1", "..data")
	link("..data/a.yaml", "a.yaml")
	link("nowhere.yaml", "dangling.yaml")
	d.scan()
	r.expect(t, "set Service default/a 10.96.0.1", "synced")
	link("..v2", "..data_tmp")
	if err := os.Rename(filepath.Join(f.path, "..data_tmp"), filepath.Join(f.path, "..data")); err != nil {
		t.Fatal(err)
	}
	d.scan()
	r.expect(t, "set Service default/a 10.96.0.2", "synced")
}

// Run notices changes by inotify: the relist is an hour away.
func TestDirRunWatches(t *testing.T) {
	f, r, _ := newTestDir(t)
	d, err := NewDir(f.path, r, DirConfig{Relist: time.Hour, Settle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	r.await(t, "synced")
	f.write("a.yaml", manifest("a", "10.96.0.1"))
	r.await(t, "set Service default/a 10.96.0.1")
	f.write("a.yaml", manifest("a", "10.96.0.2"))
	r.await(t, "set Service default/a 10.96.0.2")
	f.remove("a.yaml")
	r.await(t, "delete Service default/a")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}

func TestNewDirRefuses(t *testing.T) {
	if _, err := NewDir("", newRecorder(), DirConfig{}); err == nil {
		t.Error("NewDir without a path: want an error")
	}
	if _, err := NewDir("/x", nil, DirConfig{}); err == nil {
		t.Error("NewDir without a Sink: want an error")
	}
	if _, err := NewDir("/x", newRecorder(), DirConfig{Relist: -1}); err == nil {
		t.Error("NewDir with a negative Relist: want an error")
	}
}
