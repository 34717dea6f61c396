package atomicwriter

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// set returns files with the same mode.
func set(content map[string]string) map[string]File {
	out := make(map[string]File, len(content))
	for name, data := range content {
		out[name] = File{Data: []byte(data), Mode: 0o644}
	}
	return out
}

// readData returns the files that the link to the data shows, as an application reads
// files that belong together: below what the link names, once more if that has changed
// meanwhile. nil: there is no link.
func readData(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	for {
		generation, err := os.Readlink(filepath.Join(dir, dataLink))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			tb.Fatal(err)
		}
		got, err := readTree(filepath.Join(dir, generation))
		if now, _ := os.Readlink(filepath.Join(dir, dataLink)); now != generation {
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		return got
	}
}

// readTree returns all regular files below a directory.
func readTree(dir string) (map[string]string, error) {
	out := map[string]string{}
	return out, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		name, _ := filepath.Rel(dir, at)
		out[name] = string(data)
		return err
	})
}

// readVisible returns the files that open under the names users see; links that lead
// nowhere are no files. nil: there is none.
func readVisible(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	var out map[string]string
	for _, e := range entries(tb, dir) {
		if strings.HasPrefix(e, "..") {
			continue
		}
		resolved, err := filepath.EvalSymlinks(filepath.Join(dir, e))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		below, err := readTree(resolved)
		if err != nil {
			tb.Fatal(err)
		}
		if out == nil {
			out = map[string]string{}
		}
		for name, data := range below {
			out[filepath.Join(e, name)] = data
		}
	}
	return out
}

func entries(tb testing.TB, dir string) []string {
	tb.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name()
	}
	return names
}

// holds fails the test unless a directory shows a set and holds nothing else.
func holds(tb testing.TB, dir string, want map[string]string) {
	tb.Helper()
	if diff := cmp.Diff(want, readData(tb, dir)); diff != "" {
		tb.Errorf("the data (-want +got)\n%s", diff)
	}
	visible := readVisible(tb, dir)
	if visible == nil {
		visible = map[string]string{}
	}
	if diff := cmp.Diff(want, visible); diff != "" {
		tb.Errorf("what users see (-want +got)\n%s", diff)
	}
	tops := map[string]bool{dataLink: true}
	if generation, err := os.Readlink(filepath.Join(dir, dataLink)); err == nil {
		tops[generation] = true
	}
	for name := range want {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	got := map[string]bool{}
	for _, e := range entries(tb, dir) {
		got[e] = true
	}
	if !maps.Equal(tops, got) {
		tb.Errorf("the directory holds %v, want %v", got, tops)
	}
}
