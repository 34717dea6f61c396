package logs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

// began is the time of the first line of every test log.
var began = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// line is the n-th line of a log: one a second.
func line(n int, text string) string {
	return fmt.Sprintf("%s stdout F %s\n", began.Add(time.Duration(n)*time.Second).Format(time.RFC3339Nano), text)
}

// writer writes a log as a runtime does.
type writer struct {
	tb   testing.TB
	file logs.File

	// mu guards out, as a runtime's own lock does.
	mu  sync.Mutex
	out *os.File
}

// newWriter makes a log in a folder of its own.
func newWriter(tb testing.TB) *writer {
	tb.Helper()
	w := &writer{tb: tb, file: logs.File{Root: tb.TempDir(), Path: "pod/app/0.log"}}
	if err := os.MkdirAll(filepath.Dir(w.file.String()), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := w.reopen(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.out.Close() })
	return w
}

// reopen is what a runtime does when it is asked to.
func (w *writer) reopen(context.Context) error {
	out, err := os.OpenFile(w.file.String(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out != nil {
		w.out.Close()
	}
	w.out = out
	return nil
}

func (w *writer) write(text string) {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.WriteString(text); err != nil {
		w.tb.Fatal(err)
	}
}

// lines writes the lines from to to, each with its number as text.
func (w *writer) lines(from, to int) {
	w.tb.Helper()
	for n := from; n <= to; n++ {
		w.write(line(n, fmt.Sprint(n)))
	}
}

// rotate rotates whatever the size.
func (w *writer) rotate(maxFiles int) {
	w.tb.Helper()
	rotated, err := logs.Rotate(w.tb.Context(), w.file, logs.Policy{MaxSize: 1, MaxFiles: maxFiles}, w.reopen)
	if err != nil || !rotated {
		w.tb.Fatalf("rotated is %v, error %v", rotated, err)
	}
}

// copyLog returns what Copy writes.
func copyLog(tb testing.TB, f logs.File, opts logs.Options) string {
	tb.Helper()
	var b strings.Builder
	if err := logs.Copy(tb.Context(), &b, f, opts); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// words is the text of a log whose lines are numbers.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }
