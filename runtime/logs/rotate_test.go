package logs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

// names lists the folder of a log.
func names(tb testing.TB, f logs.File) []string {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Dir(f.String()))
	if err != nil {
		tb.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The clock of a bubble begins at the same time always.
		t.Setenv("TZ", "UTC")
		w := newWriter(t)
		w.lines(1, 1)
		kept := filepath.Join(filepath.Dir(w.file.String()), "0.log.note")
		if err := os.WriteFile(kept, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for n := 2; n <= 8; n++ {
			w.rotate(4)
			w.lines(n, n)
			elapse(time.Minute)
		}
		base := time.Now().Local()
		stamp := func(minutes int) string {
			return "0.log." + base.Add(time.Duration(minutes)*time.Minute).Format("20060102-150405")
		}
		want := []string{"0.log", stamp(-3) + ".gz", stamp(-2) + ".gz", stamp(-1), "0.log.note"}
		if d := cmp.Diff(want, names(t, w.file)); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
		if got := words(copyLog(t, w.file, logs.Options{})); got != "5 6 7 8" {
			t.Errorf("log is %q, want 5 6 7 8", got)
		}
	})
}

func TestRotateSmallLog(t *testing.T) {
	w := newWriter(t)
	w.lines(1, 1)
	never := func(context.Context) error { return errors.New("must not be called") }
	if rotated, err := logs.Rotate(t.Context(), w.file, logs.Policy{}, never); rotated || err != nil {
		t.Errorf("rotated is %v, error %v, want no rotation of a small log", rotated, err)
	}
	none := logs.File{Root: w.file.Root, Path: "other/app/0.log"}
	if rotated, err := logs.Rotate(t.Context(), none, logs.Policy{MaxSize: 1}, never); rotated || err != nil {
		t.Errorf("rotated is %v, error %v, want nothing to do for a log that is not there", rotated, err)
	}
	for _, p := range []logs.Policy{{MaxFiles: 1}, {MaxSize: -1}} {
		if _, err := logs.Rotate(t.Context(), w.file, p, never); err == nil {
			t.Errorf("policy %+v was taken", p)
		}
	}
}

func TestRuntimeThatDoesNotReopen(t *testing.T) {
	down := errors.New("the runtime is down")
	for _, c := range []struct {
		name string
		// opens says that the runtime did it all the same.
		opens bool
		want  int
	}{{"gets its name back", false, 1}, {"keeps the new file if there is one", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t)
			w.lines(1, 1)
			_, err := logs.Rotate(t.Context(), w.file, logs.Policy{MaxSize: 1}, func(ctx context.Context) error {
				if c.opens {
					return errors.Join(w.reopen(ctx), down)
				}
				return down
			})
			if !errors.Is(err, down) {
				t.Errorf("error is %v, want that of the runtime", err)
			}
			w.lines(2, 2)
			if got := names(t, w.file); len(got) != c.want || got[0] != "0.log" {
				t.Errorf("there are %v, want %d files, the live one among them", got, c.want)
			}
			if got := words(copyLog(t, w.file, logs.Options{})); got != "1 2" {
				t.Errorf("log is %q, want 1 2", got)
			}
		})
	}
}

func TestRotateFinishesWhatACrashLeft(t *testing.T) {
	w := newWriter(t)
	w.lines(1, 1)
	w.rotate(5)
	w.lines(2, 2)
	first := names(t, w.file)[1]
	dir := filepath.Dir(w.file.String())
	// A compression that was cut, and one that was complete before its original was removed.
	for _, name := range []string{first + ".tmp", first + ".gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := words(copyLog(t, w.file, logs.Options{})); got != "1 2" {
		t.Errorf("log before is %q, want 1 2", got)
	}
	w.rotate(5)
	w.lines(3, 3)
	if got := words(copyLog(t, w.file, logs.Options{})); got != "1 2 3" {
		t.Errorf("log is %q, want 1 2 3", got)
	}
	if got := strings.Join(names(t, w.file), " "); strings.Contains(got, ".tmp") {
		t.Errorf("files are %s", got)
	}
}

// The runtime goes on writing to a file that has another name, or none, until it is asked
// to reopen the log.
func TestLiveFileThatIsMissingIsMade(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(live string) error
		want string
	}{
		{"a crash between renaming and reopening", func(live string) error {
			return os.Rename(live, live+".20260102-000000")
		}, "1 2 3"},
		{"removed by somebody", os.Remove, "3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t)
			w.lines(1, 1)
			if err := c.lose(w.file.String()); err != nil {
				t.Fatal(err)
			}
			w.lines(2, 2)
			down := errors.New("the runtime is down")
			if _, err := logs.Rotate(t.Context(), w.file, logs.Policy{}, func(context.Context) error { return down }); !errors.Is(err, down) {
				t.Errorf("error is %v, want that of the runtime", err)
			}
			nothing := func(context.Context) error { return nil }
			if _, err := logs.Rotate(t.Context(), w.file, logs.Policy{}, nothing); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error is %v, want one that says that the log is still missing", err)
			}
			if rotated, err := logs.Rotate(t.Context(), w.file, logs.Policy{}, w.reopen); rotated || err != nil {
				t.Errorf("rotated is %v, error %v, want a log that is reopened only", rotated, err)
			}
			w.lines(3, 3)
			if got := words(copyLog(t, w.file, logs.Options{})); got != c.want {
				t.Errorf("log is %q, want %s", got, c.want)
			}
		})
	}
}

func TestRotateGivenUp(t *testing.T) {
	w := newWriter(t)
	w.lines(1, 1)
	w.rotate(5)
	w.lines(2, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := logs.Rotate(ctx, w.file, logs.Policy{MaxSize: 1}, w.reopen); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the context", err)
	}
	if got := words(copyLog(t, w.file, logs.Options{})); got != "1 2" || len(names(t, w.file)) != 2 {
		t.Errorf("log is %q in %v", got, names(t, w.file))
	}
}

// reopener reopens by container.
type reopener map[string]*writer

func (r reopener) ReopenContainerLog(ctx context.Context, id string) error {
	if w := r[id]; w != nil {
		return w.reopen(ctx)
	}
	return errors.New("no such container")
}

func TestRotator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, gone := newWriter(t), newWriter(t)
		asked := 0
		list := func(context.Context) ([]logs.Live, error) {
			if asked++; asked == 2 {
				return nil, errors.New("the runtime is down")
			}
			return []logs.Live{{ContainerID: "gone", File: gone.file}, {ContainerID: "good", File: good.file}}, nil
		}
		r, err := logs.NewRotator(reopener{"good": good}, list, logs.RotatorConfig{Policy: logs.Policy{MaxSize: 100}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Second)
		defer cancel()
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		for n := range 50 {
			good.lines(n, n)
			gone.lines(n, n)
			elapse(time.Second)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if asked != 6 {
			t.Errorf("looked %d times in a minute, want 6", asked)
		}
		if n := len(names(t, good.file)); n != 5 {
			t.Errorf("%d files are left, want 5: %v", n, names(t, good.file))
		}
		if n := len(names(t, gone.file)); n != 1 {
			t.Errorf("%d files are left where the runtime refused, want 1", n)
		}
	})
}

func TestNewRotatorRefuses(t *testing.T) {
	list := func(context.Context) ([]logs.Live, error) { return nil, nil }
	for name, err := range map[string]error{
		"no runtime": second(logs.NewRotator(nil, list, logs.RotatorConfig{})),
		"no list":    second(logs.NewRotator(reopener{}, nil, logs.RotatorConfig{})),
		"interval":   second(logs.NewRotator(reopener{}, list, logs.RotatorConfig{Interval: -1})),
		"policy":     second(logs.NewRotator(reopener{}, list, logs.RotatorConfig{Policy: logs.Policy{MaxFiles: 1}})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second(_ *logs.Rotator, err error) error { return err }

func TestAttemptsThatTheRuntimeForgot(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "default_logs_1/app")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		add  string
		want []uint32
	}{
		{"README", nil},
		{"x.log", nil},
		{"0.log", []uint32{0}},
		{"1.log", []uint32{0, 1}},
		{"2.log.20240101-000000.gz", []uint32{0, 1, 2}},
		{"2.log", []uint32{0, 1, 2}},
		{"10.log.20240101-000000", []uint32{0, 1, 2, 10}},
		{"07.log", []uint32{0, 1, 2, 10}},
		{"11.log.old", []uint32{0, 1, 2, 10}},
		{"99999999999.log", []uint32{0, 1, 2, 10}},
	} {
		if err := os.WriteFile(filepath.Join(dir, c.add), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := logs.Attempts(root, "default_logs_1/app")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("attempts with %s (-want +got):\n%s", c.add, d)
		}
	}
	if got, err := logs.Attempts(root, "default_other_2/app"); err != nil || got != nil {
		t.Errorf("attempts of nobody are %v, error %v", got, err)
	}
}
