package logs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

// follow collects what a follower sees until stop was set.
func follow(tb testing.TB, f logs.File, opts logs.Options) (stop func() string) {
	tb.Helper()
	var stopped atomic.Bool
	opts.Follow = true
	opts.Running = func(context.Context) (bool, error) { return !stopped.Load(), nil }
	var b strings.Builder
	done := make(chan error, 1)
	go func() { done <- logs.Copy(tb.Context(), &b, f, opts) }()
	return func() string {
		stopped.Store(true)
		if err := <-done; err != nil {
			tb.Error(err)
		}
		return b.String()
	}
}

func TestFollow(t *testing.T) {
	none := int64(0)
	for _, c := range []struct {
		name string
		opts logs.Options
		do   func(*testing.T, *writer)
		want string
	}{
		{"lines as they come", logs.Options{}, func(_ *testing.T, w *writer) { w.lines(3, 4) }, "1 2 3 4"},
		{"new lines only", logs.Options{Tail: &none}, func(_ *testing.T, w *writer) { w.lines(3, 4) }, "3 4"},
		{"a line that is written in two halves", logs.Options{}, func(_ *testing.T, w *writer) {
			whole := line(3, "3")
			w.write(whole[:10])
			elapse(time.Second)
			w.write(whole[10:])
		}, "1 2 3"},
		{"rotated once", logs.Options{}, func(_ *testing.T, w *writer) { w.rotate(5); w.lines(3, 3) }, "1 2 3"},
		{"rotated once, the live file only", logs.Options{LiveOnly: true}, func(_ *testing.T, w *writer) {
			w.rotate(5)
			w.lines(3, 3)
		}, "1 2 3"},
		{"rotated often between two looks", logs.Options{}, func(_ *testing.T, w *writer) {
			for n := 3; n <= 12; n++ {
				w.lines(n, n)
				w.rotate(20)
			}
		}, "1 2 3 4 5 6 7 8 9 10 11 12"},
		{"what was followed is removed as surplus", logs.Options{}, func(_ *testing.T, w *writer) {
			w.lines(3, 3)
			for n := 4; n <= 9; n++ {
				w.rotate(2)
				w.lines(n, n)
			}
		}, "1 2 3 8 9"},
		{"written to after the new file is there", logs.Options{}, func(_ *testing.T, w *writer) {
			late, err := os.OpenFile(w.file.String(), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer late.Close()
			w.rotate(5)
			w.lines(4, 4)
			elapse(500 * time.Millisecond)
			fmt.Fprint(late, line(3, "3"))
		}, "1 2 4 3"},
		{"cut by another rotator", logs.Options{}, func(t *testing.T, w *writer) {
			t.Helper()
			if err := os.Truncate(w.file.String(), 0); err != nil {
				t.Error(err)
			}
			elapse(time.Second)
			w.lines(3, 3)
		}, "1 2 3"},
		{"the runtime is slow to reopen", logs.Options{}, func(t *testing.T, w *writer) {
			t.Helper()
			if err := os.Rename(w.file.String(), w.file.String()+".20260102-000000"); err != nil {
				t.Error(err)
			}
			w.lines(3, 3)
			elapse(5 * time.Second)
			w.lines(4, 4)
			if err := w.reopen(t.Context()); err != nil {
				t.Error(err)
			}
			w.lines(5, 5)
		}, "1 2 3 4 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWriter(t)
				w.lines(1, 2)
				stop := follow(t, w.file, c.opts)
				synctest.Wait()
				c.do(t, w)
				if got := words(stop()); got != c.want {
					t.Errorf("log is %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestFollowerThatBeginsWithoutALiveFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.lines(1, 2)
		if err := os.Rename(w.file.String(), w.file.String()+".20260102-000000"); err != nil {
			t.Fatal(err)
		}
		stop := follow(t, w.file, logs.Options{})
		synctest.Wait()
		w.lines(3, 3)
		if err := w.reopen(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.lines(4, 4)
		if got := words(stop()); got != "1 2 3 4" {
			t.Errorf("log is %q, want 1 2 3 4", got)
		}
	})
}

func TestFollowEndsWithTheFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.lines(1, 2)
		time.AfterFunc(time.Minute, func() {
			if err := os.RemoveAll(w.file.Root); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		if got := words(copyLog(t, w.file, logs.Options{Follow: true})); got != "1 2" {
			t.Errorf("log is %q, want 1 2", got)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("the log ended after %v, want a minute", took)
		}
	})
}

func TestFollowWhileTheRuntimeCannotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.lines(1, 1)
		asked := 0
		running := func(context.Context) (bool, error) {
			if asked++; asked <= 10 {
				w.lines(asked+1, asked+1)
				return false, errors.New("the runtime is down")
			}
			return false, nil
		}
		got := words(copyLog(t, w.file, logs.Options{Follow: true, Running: running}))
		if got != "1 2 3 4 5 6 7 8 9 10 11" {
			t.Errorf("log is %q, want 1 to 11", got)
		}
	})
}

func TestFollowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.lines(1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var b strings.Builder
		err := logs.Copy(ctx, &b, w.file, logs.Options{Follow: true})
		if !errors.Is(err, context.DeadlineExceeded) || words(b.String()) != "1 2" {
			t.Errorf("log is %q, error %v", b.String(), err)
		}
	})
}

// Whatever is done with a log, a follower sees each line once and in order, and so does
// somebody who reads all of it at the end.
func TestEachLineOnceHoweverTheLogIsRotated(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"line", "line", "piece", "half", "rotate", "pause", "blink"}), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			w := newWriter(t)
			w.lines(0, 0)
			stop := follow(t, w.file, logs.Options{})
			want := 0
			for _, step := range steps {
				switch step {
				case "line":
					want++
					w.lines(want, want)
				case "piece":
					want++
					w.write(strings.Replace(line(want, ""), " F ", " P ", 1))
					w.lines(want, want)
				case "half":
					want++
					text := line(want, fmt.Sprint(want))
					w.write(text[:len(text)/2])
					elapse(50 * time.Millisecond)
					w.write(text[len(text)/2:])
				case "rotate":
					if info, err := w.out.Stat(); err != nil || info.Size() > 1 {
						w.rotate(len(steps) + 2)
					}
				case "pause":
					elapse(time.Second)
				case "blink":
					elapse(time.Millisecond)
				}
			}
			var all strings.Builder
			for n := range want + 1 {
				fmt.Fprintln(&all, n)
			}
			if got := stop(); got != all.String() {
				t.Errorf("after %v the follower saw %q, want %q", steps, words(got), words(all.String()))
			}
			if got := copyLog(t, w.file, logs.Options{}); got != all.String() {
				t.Errorf("after %v the log is %q, want %q", steps, words(got), words(all.String()))
			}
		})
	})
}

// The same with a clock that runs, a writer that does not wait, and many followers.
func TestFollowersOfABusyLog(t *testing.T) {
	const total, followers = 20_000, 4
	w := newWriter(t)
	w.lines(0, 0)
	var stops []func() string
	for range followers {
		stops = append(stops, follow(t, w.file, logs.Options{}))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < total; n++ {
		w.lines(n, n)
		if random.IntN(200) == 0 {
			w.rotate(total)
		}
	}
	var want strings.Builder
	for n := range total {
		fmt.Fprintln(&want, n)
	}
	for i, stop := range stops {
		if got := stop(); got != want.String() {
			t.Errorf("follower %d saw %d bytes that are not the %d of the log", i, len(got), want.Len())
		}
	}
}

// elapse lets time pass.
func elapse(d time.Duration) { <-time.After(d) }
