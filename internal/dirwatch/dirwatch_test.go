package dirwatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestWakesForWhatConcerns(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(func(name string) bool { return filepath.Base(name) != "neighbour" })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(dir); err != nil {
		t.Fatal(err)
	}
	if !w.Watches(dir) || w.Watches(filepath.Dir(dir)) {
		t.Error("it watches something else than what was added")
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("neighbour")
	select {
	case <-w.Wake():
		t.Error("woken for what does not concern")
	case <-time.After(50 * time.Millisecond):
	}
	write("file")
	select {
	case <-w.Wake():
	case <-time.After(time.Minute):
		t.Error("not woken")
	}
	w.Remove(dir)
	if w.Watches(dir) {
		t.Error("the watch is still there")
	}
}
