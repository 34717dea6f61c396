package logs_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

func TestCopy(t *testing.T) {
	// Lines 1-3 are compressed, 4-6 rotated, 7-9 live.
	w := newWriter(t)
	w.lines(1, 3)
	w.rotate(5)
	w.lines(4, 6)
	w.rotate(5)
	w.lines(7, 9)
	tail := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name string
		opts logs.Options
		want string
	}{
		{"all", logs.Options{}, "1 2 3 4 5 6 7 8 9"},
		{"live file only", logs.Options{LiveOnly: true}, "7 8 9"},
		{"last 0", logs.Options{Tail: tail(0)}, ""},
		{"last 2", logs.Options{Tail: tail(2)}, "8 9"},
		{"last 3, just the live file", logs.Options{Tail: tail(3)}, "7 8 9"},
		{"last 4, one of a rotated file", logs.Options{Tail: tail(4)}, "6 7 8 9"},
		{"last 7, one of a compressed file", logs.Options{Tail: tail(7)}, "3 4 5 6 7 8 9"},
		{"last 100", logs.Options{Tail: tail(100)}, "1 2 3 4 5 6 7 8 9"},
		{"last 4 of the live file", logs.Options{Tail: tail(4), LiveOnly: true}, "7 8 9"},
		{"since a line", logs.Options{Since: began.Add(5 * time.Second)}, "5 6 7 8 9"},
		{"since after all", logs.Options{Since: began.Add(time.Hour)}, ""},
		{"last 3 since", logs.Options{Tail: tail(3), Since: began.Add(9 * time.Second)}, "9"},
		{"5 bytes", logs.Options{Limit: 5}, "1 2 3"},
		{"bytes of the last", logs.Options{Limit: 3, Tail: tail(2)}, "8 9"},
		{"the other stream", logs.Options{Stream: logs.Stderr}, ""},
		{"its stream", logs.Options{Stream: logs.Stdout, Tail: tail(1)}, "9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := words(copyLog(t, w.file, c.opts)); got != c.want {
				t.Errorf("log is %q, want %q", got, c.want)
			}
		})
	}
}

// Every line that is handed on makes the log one line longer.
func TestTailOfALogThatGrowsWhileItIsRead(t *testing.T) {
	for _, c := range []struct {
		name string
		tail int64
		want string
	}{
		{"none", 0, ""},
		{"of the live file", 2, "5 6"},
		{"of a rotated file too", 5, "2 3 4 5 6"},
		{"more than there are", 8, "1 2 3 4 5 6 7 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t)
			w.lines(1, 3)
			w.rotate(5)
			w.lines(4, 6)
			// The end of it is not written yet.
			w.write(strings.TrimSuffix(line(7, "7"), "\n"))
			next := 7
			var got []string
			for e, err := range logs.Entries(t.Context(), w.file, logs.Options{Tail: &c.tail}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(e.Text))
				if next++; next > 20 {
					break
				}
				w.write("\n" + strings.TrimSuffix(line(next, strconv.Itoa(next)), "\n"))
			}
			if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
				t.Errorf("lines (-want +got):\n%s", d)
			}
		})
	}
}

func TestCopyOfPiecesAndStreams(t *testing.T) {
	const text = `2026-01-02T15:04:05.1Z stdout P a
2026-01-02T15:04:06Z stdout F b
2026-01-02T15:04:07Z stderr F e
2026-01-02T15:04:08Z stdout F 
{"log":"d\n","stream":"stdout","time":"2026-01-02T15:04:09Z"}
2026-01-02T15:04:10Z stdout P x
2026-01-02T15:04:11Z stdout P y
`
	w := newWriter(t)
	w.write(text)
	tail := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name string
		opts logs.Options
		want string
	}{
		{"pieces are joined", logs.Options{}, "ab\ne\n\nd\nxy"},
		{"a time for each line", logs.Options{Timestamps: true, Limit: 38}, "2026-01-02T15:04:05.100000000Z ab\n2026"},
		{"stderr", logs.Options{Stream: logs.Stderr}, "e\n"},
		{"stdout", logs.Options{Stream: logs.Stdout}, "ab\n\nd\nxy"},
		{"the last line goes on", logs.Options{Tail: tail(2)}, "d\nxy"},
		{"a line of pieces counts once", logs.Options{Tail: tail(4), Stream: logs.Stdout}, "ab\n\nd\nxy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := copyLog(t, w.file, c.opts)
			if got != c.want {
				t.Errorf("log is %q, want %q", got, c.want)
			}
		})
	}
}

func TestCorruptedLog(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		// told is how many warnings there are.
		told int
	}{
		{"NUL bytes after a power cut", line(1, "1") + strings.Repeat("\x00", 5000) + "\n" + line(2, "2"), "1 2", 1},
		{"garbage of many lines", line(1, "1") + "\xff\xfe\nplain\n\n{}\n" + line(2, "2"), "1 2", 4},
		{"an end that is cut", line(1, "1") + strings.TrimSuffix(line(2, "2"), "\n"), "1 2", 0},
		{"an end that is cut before the text", line(1, "1") + "2026-01-02T15:0", "1", 1},
		{"3 MiB that are no line", line(1, "1") + strings.Repeat("x", 3<<20) + "\n" + line(2, "2"), "1 2", 1},
		{"nothing but NUL bytes", strings.Repeat("\x00", 3<<20), "", 1},
		{"nothing", "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t)
			w.write(c.text)
			var told bytes.Buffer
			if got := words(copyLog(t, w.file, logs.Options{Log: slog.New(slog.NewTextHandler(&told, nil))})); got != c.want {
				t.Errorf("log is %q, want %q", got, c.want)
			}
			if n := strings.Count(told.String(), "left out"); n != c.told {
				t.Errorf("%d lines were reported, want %d:\n%s", n, c.told, told.String())
			}
			if n := int64(2); c.want == "1 2" {
				if got := words(copyLog(t, w.file, logs.Options{Tail: &n})); got != "1 2" {
					t.Errorf("last two lines are %q", got)
				}
			}
		})
	}
}

func TestLineOfManyMegabytes(t *testing.T) {
	w := newWriter(t)
	long := strings.Repeat("0123456789", 1<<19)
	w.write(line(1, "1") + line(2, long) + line(3, "3"))
	if got := copyLog(t, w.file, logs.Options{}); got != "1\n"+long+"\n3\n" {
		t.Errorf("log has %d bytes, want %d", len(got), len(long)+5)
	}
	one := int64(1)
	if got := copyLog(t, w.file, logs.Options{Tail: &one}); got != "3\n" {
		t.Errorf("last line has %d bytes, want 2", len(got))
	}
}

func TestDamagedRotatedFileDoesNotStopTheRead(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"cut":    func(b []byte) []byte { return b[:len(b)-9] },
		"wrong":  func(b []byte) []byte { b[len(b)-8] ^= 0xff; return b },
		"no zip": func([]byte) []byte { return []byte("no zip") },
		"empty":  func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t)
			w.lines(1, 3)
			w.rotate(5)
			w.lines(4, 4)
			w.rotate(5)
			w.lines(5, 5)
			zips, err := filepath.Glob(w.file.String() + ".*.gz")
			if err != nil || len(zips) != 1 {
				t.Fatalf("compressed files are %v, error %v", zips, err)
			}
			data, err := os.ReadFile(zips[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(zips[0], damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			many := int64(100)
			for _, opts := range []logs.Options{{}, {Tail: &many}} {
				if got := words(copyLog(t, w.file, opts)); !strings.HasSuffix(got, "4 5") {
					t.Errorf("log is %q, want at least 4 5", got)
				}
			}
		})
	}
}

func TestOnlyRegularFilesBeneathTheRoot(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(line(1, "secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) func(string) error {
		return func(root string) error { return os.Symlink(target, filepath.Join(root, name)) }
	}
	for _, c := range []struct {
		name, path string
		make       func(root string) error
	}{
		{"link to a file", "pod/app/0.log", link(secret, "pod/app/0.log")},
		{"link to a file beside", "pod/app/0.log", link("1.log", "pod/app/0.log")},
		{"link on the way", "pod/link/0.log", link("app", "pod/link")},
		{"folder", "pod/app/0.log", func(root string) error { return os.Mkdir(filepath.Join(root, "pod/app/0.log"), 0o755) }},
		{"pipe", "pod/app/0.log", func(root string) error { return syscall.Mkfifo(filepath.Join(root, "pod/app/0.log"), 0o600) }},
		{"path that leads out", "pod/../../secret", nil},
		{"absolute path", secret, nil},
		{"no path", "", nil},
		{"no root", "pod/app/1.log", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, "pod/app"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "pod/app/1.log"), []byte(line(1, "1")), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.make != nil {
				if err := c.make(root); err != nil {
					t.Fatal(err)
				}
			}
			f := logs.File{Root: root, Path: c.path}
			if c.name == "no root" {
				f.Root = ""
			}
			var b strings.Builder
			if err := logs.Copy(t.Context(), &b, f, logs.Options{}); err == nil || b.Len() > 0 {
				t.Errorf("copied %q, error %v", b.String(), err)
			}
			never := func(context.Context) error { return errors.New("must not be called") }
			if rotated, err := logs.Rotate(t.Context(), f, logs.Policy{MaxSize: 1}, never); err == nil || rotated {
				t.Errorf("rotated is %v, error %v", rotated, err)
			}
		})
	}
	// A rotated file may be such a trap too; its neighbours are read.
	w := newWriter(t)
	if err := os.Symlink(secret, w.file.String()+".20260101-000000"); err != nil {
		t.Fatal(err)
	}
	w.lines(1, 2)
	if got := words(copyLog(t, w.file, logs.Options{})); got != "1 2" {
		t.Errorf("log is %q, want 1 2", got)
	}
}

func TestErrors(t *testing.T) {
	w := newWriter(t)
	w.lines(1, 9)
	none := logs.File{Root: w.file.Root, Path: "pod/app/1.log"}
	if err := logs.Copy(t.Context(), &strings.Builder{}, none, logs.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error of a log that is not there is %v", err)
	}
	less := int64(-1)
	for name, opts := range map[string]logs.Options{
		"stream": {Stream: 7}, "tail": {Tail: &less}, "limit": {Limit: -1},
	} {
		if err := logs.Copy(t.Context(), &strings.Builder{}, w.file, opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	full := errors.New("disk is full")
	if err := logs.Copy(t.Context(), failing{full}, w.file, logs.Options{}); !errors.Is(err, full) {
		t.Errorf("error of the writer is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := logs.Copy(ctx, &strings.Builder{}, w.file, logs.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the context", err)
	}
	for e, err := range logs.Entries(t.Context(), w.file, logs.Options{}) {
		if err != nil || string(e.Text) != "1" {
			t.Errorf("first entry is %q, error %v", e.Text, err)
		}
		break
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
