package atomicwriter

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	tests := []struct {
		name  string
		write []map[string]string // one after the other
	}{
		{"one file", []map[string]string{{"a": "1"}}},
		{"changed", []map[string]string{{"a": "1"}, {"a": "2"}}},
		{"added and removed", []map[string]string{{"a": "1", "b": "2"}, {"b": "2", "c": "3"}}},
		{"below directories", []map[string]string{{"a/b/c": "1", "a/d": "2", "e": "3"}, {"a/d": "2"}, {"a": "now a file"}, {"a/b/c": "1"}}},
		{"nothing", []map[string]string{{}, {"a": "1"}, {}}},
		{"empty files", []map[string]string{{"a": "", "b": ""}, {"a": ""}}},
		{"hidden", []map[string]string{{".hidden": "1", "a..b": "3"}}},
		{"same size", []map[string]string{{"a": "one"}, {"a": "two"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := Writer{Dir: t.TempDir(), Durable: true}
			for _, content := range tt.write {
				if changed, err := w.Write(set(content)); err != nil || !changed {
					t.Fatalf("Write is %t, %v, want a change", changed, err)
				}
				holds(t, w.Dir, content)
				before := state(t, w.Dir)
				if changed, err := w.Write(set(content)); err != nil || changed {
					t.Errorf("the second Write is %t, %v, want no change", changed, err)
				}
				if after := state(t, w.Dir); before != after {
					t.Errorf("writing the same again changed\n%sto\n%s", before, after)
				}
			}
		})
	}
}

// state describes everything below a directory down to inodes and times of changes.
func state(tb testing.TB, dir string) string {
	tb.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %v %v %d\n", at, info.Mode(), info.ModTime(), inode(info))
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

// TestLayout has what applications rely on.
func TestLayout(t *testing.T) {
	w := Writer{Dir: t.TempDir()}
	before := time.Now().UTC().Truncate(time.Second)
	if _, err := w.Write(set(map[string]string{"app.ini": "1", "conf.d/a": "2"})); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"app.ini": "..data/app.ini", "conf.d": "..data/conf.d"} {
		if got, err := os.Readlink(filepath.Join(w.Dir, name)); err != nil || got != want {
			t.Errorf("%s leads to %q (%v), want %q", name, got, err, want)
		}
	}
	generation, err := os.Readlink(filepath.Join(w.Dir, "..data"))
	if err != nil || !regexp.MustCompile(`^\.\.\d{4}(_\d{2}){5}\.\d+$`).MatchString(generation) {
		t.Fatalf("..data leads to %q (%v), want a time and a number", generation, err)
	}
	text, _, _ := strings.Cut(generation[2:], ".")
	at, err := time.Parse("2006_01_02_15_04_05", text)
	if err != nil || at.Before(before) || at.After(time.Now()) {
		t.Errorf("the generation is of %v (%v), want between %v and now", at, err, before)
	}
	for _, dir := range []string{generation, generation + "/conf.d"} {
		if info, err := os.Stat(filepath.Join(w.Dir, dir)); err != nil || info.Mode() != fs.ModeDir|0o755 {
			t.Errorf("%s has mode %v (%v), want 0755", dir, info.Mode(), err)
		}
	}
}

func TestModesAndOwners(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("REQUIRE_KERNEL") == "1" {
			t.Fatal("only root can give files away")
		}
		t.Skip("only root can give files away (REQUIRE_KERNEL=1 makes this a failure)")
	}
	uid, gid := 1234, 5678
	w := Writer{Dir: t.TempDir(), GID: &gid}
	files := map[string]File{
		"d/key": {Data: []byte("k"), Mode: 0o600, UID: &uid},
		"all":   {Data: []byte("a"), Mode: 0o666 | fs.ModeSetuid},
	}
	if _, err := w.Write(files); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path     string
		mode     fs.FileMode
		uid, gid int
	}{
		{"..data/d/key", 0o600, uid, gid},
		{"..data/all", 0o666, 0, gid},
		{"..data/d", fs.ModeDir | fs.ModeSetgid | 0o755, 0, gid},
		{"..data/.", fs.ModeDir | fs.ModeSetgid | 0o755, 0, gid},
		{"..data", fs.ModeSymlink | 0o777, 0, gid},
		{"all", fs.ModeSymlink | 0o777, 0, gid},
	}
	for _, tt := range tests {
		info, err := os.Lstat(w.Dir + "/" + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if u, g := owner(info); info.Mode() != tt.mode || u != tt.uid || g != tt.gid {
			t.Errorf("%s is %v of %d:%d, want %v of %d:%d", tt.path, info.Mode(), u, g, tt.mode, tt.uid, tt.gid)
		}
	}
}

func TestBadPaths(t *testing.T) {
	long := strings.Repeat("x", 255)
	deep := strings.Repeat(strings.Repeat("y", 127)+"/", 32)
	tests := []struct {
		name  string
		paths []string
		fails string // empty: they are fine
	}{
		{"empty", []string{""}, "it names no file"},
		{"the directory", []string{"./."}, "it names no file"},
		{"a directory", []string{"a/"}, "it names a directory"},
		{"absolute", []string{"/etc/passwd"}, "it must be relative"},
		{"up", []string{"../a"}, "it must not contain '..'"},
		{"up and down", []string{"a/../b"}, "it must not contain '..'"},
		{"up at the end", []string{"a/.."}, "it must not contain '..'"},
		{"the link itself", []string{"..data"}, "it must not start with '..'"},
		{"the link itself in disguise", []string{"./..data"}, "it must not start with '..'"},
		{"reserved", []string{"..x/a"}, "it must not start with '..'"},
		{"null byte", []string{"a\x00b"}, "it is no text in UTF-8"},
		{"no text", []string{"a\xff"}, "it is no text in UTF-8"},
		{"longest element", []string{long}, ""},
		{"long element", []string{long + "x"}, "an element is longer than 255 bytes"},
		{"longest path", []string{deep[:4095]}, ""},
		{"long path", []string{deep + "z"}, "it is longer than 4096 bytes"},
		{"two for one file", []string{"a/b", "a//b"}, "another path names the same file"},
		{"a file and its directory", []string{"a", "a/b/c"}, "and the directory of"},
		{"three dots", []string{"..."}, "it must not start with '..'"},
		{"dots elsewhere", []string{"a/..b", "a..", ".b"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]File{}
			for _, p := range tt.paths {
				files[p] = File{}
			}
			tree, err := newTree(files)
			switch {
			case tt.fails == "" && err != nil:
				t.Error(err)
			case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
				t.Errorf("error is %v, want %q", err, tt.fails)
			case tt.fails == "" && len(tree.paths) != len(tt.paths):
				t.Errorf("files are %v", tree.paths)
			}
		})
	}
}

// TestBadPathChangesNothing: a set with one bad path is refused as a whole.
func TestBadPathChangesNothing(t *testing.T) {
	w := Writer{Dir: t.TempDir()}
	good := map[string]string{"a": "1"}
	if _, err := w.Write(set(good)); err != nil {
		t.Fatal(err)
	}
	_, err := w.Write(set(map[string]string{"a": "2", "../b": "3"}))
	if err == nil || !strings.Contains(err.Error(), w.Dir) || !strings.Contains(err.Error(), `"../b"`) {
		t.Errorf("error is %v, want one with the directory and the path", err)
	}
	holds(t, w.Dir, good)
}

// TestStrangersStay: what is in the directory beside the links is left alone, and a link
// of the writer is not put in its place.
func TestStrangersStay(t *testing.T) {
	w := Writer{Dir: t.TempDir()}
	mountPoint, file := filepath.Join(w.Dir, "nested"), filepath.Join(w.Dir, "own")
	if err := os.Mkdir(mountPoint, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, content := range []map[string]string{{"nested/a": "1", "b": "2"}, {"own": "3"}, {}} {
		if _, err := w.Write(set(content)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Lstat(mountPoint); err != nil || !info.IsDir() {
		t.Errorf("the directory is gone: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file holds %q (%v)", data, err)
	}
}

// TestPlantedLinks: whatever somebody with access to the directory makes of its names,
// nothing outside is read, written or removed.
func TestPlantedLinks(t *testing.T) {
	tests := []struct{ name, link, target string }{
		{"the data elsewhere", "..data", "OUTSIDE"},
		{"the data above", "..data", ".."},
		{"the data a file", "..data", "..plain"},
		{"the next link", "..data_tmp", "OUTSIDE/secret"},
		{"a generation", "..2026_01_01_00_00_00.1", "OUTSIDE"},
		{"a name that users see", "a", "OUTSIDE/secret"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			outside := t.TempDir()
			secret := filepath.Join(outside, "secret")
			if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			w := Writer{Dir: t.TempDir()}
			if err := os.Symlink(strings.ReplaceAll(tt.target, "OUTSIDE", outside), filepath.Join(w.Dir, tt.link)); err != nil {
				t.Fatal(err)
			}
			if tt.target == "..plain" {
				if err := os.WriteFile(filepath.Join(w.Dir, "..plain"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]string{"a": "1", "b": "2"}
			if _, err := w.Write(set(want)); err != nil {
				t.Fatal(err)
			}
			if tt.link != "a" {
				holds(t, w.Dir, want)
			}
			if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
				t.Errorf("the file outside holds %q (%v)", data, err)
			}
			if len(entries(t, outside)) != 1 {
				t.Errorf("outside there is %v", entries(t, outside))
			}
		})
	}
}

func TestManyFiles(t *testing.T) {
	w := Writer{Dir: t.TempDir()}
	want := map[string]string{}
	for i := range 10_000 {
		want[fmt.Sprintf("key-%d", i)] = fmt.Sprint(i)
	}
	if _, err := w.Write(set(want)); err != nil {
		t.Fatal(err)
	}
	holds(t, w.Dir, want)
}

func TestNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := (Writer{Dir: dir}).Write(nil); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error is %v, want one that names %s", err, dir)
	}
}

// FuzzPath: a path is refused, or the file is exactly there.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"a", "a/b", "../a", "a/../b", "..data", "./..data", "/a", "a//b", ".", "a/", "a\x00", "\xff", "..."} {
		f.Add(path, "other")
	}
	f.Fuzz(func(t *testing.T, path, other string) {
		parent := t.TempDir()
		w := Writer{Dir: filepath.Join(parent, "volume")}
		if err := os.Mkdir(w.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := w.Write(map[string]File{path: {Data: []byte("1")}, other: {Data: []byte("1")}})
		if len(entries(t, parent)) != 1 {
			t.Fatalf("%q and %q made %v", path, other, entries(t, parent))
		}
		if err != nil {
			if got := entries(t, w.Dir); len(got) != 0 {
				t.Fatalf("%q and %q were refused (%v) and left %v", path, other, err, got)
			}
			return
		}
		holds(t, w.Dir, map[string]string{filepath.Clean(path): "1", filepath.Clean(other): "1"})
	})
}
