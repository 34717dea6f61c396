package flight_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/runtime/images/internal/flight"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestLastToLeaveEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		var ended time.Time
		work := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			<-time.After(time.Second) // the work takes its time to stop
			ended = time.Now()
			return 0, ctx.Err()
		}
		began := time.Now()
		left := make([]time.Duration, 2)
		var wg sync.WaitGroup
		for i := range left {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Minute)
				defer cancel()
				if _, err := g.Do(ctx, "k", work); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error is %v, want the caller's", err)
				}
				left[i] = time.Since(began)
			})
		}
		wg.Wait()
		if want := 2*time.Minute + time.Second; left[0] != time.Minute || left[1] != want || ended.Sub(began) != want {
			t.Errorf("callers left after %v and the work ended after %v, want 1m, and both at %v", left, ended.Sub(began), want)
		}
	})
}

// What was done before it could be stopped is not lost.
func TestLastToLeaveGetsWhatWasDone(t *testing.T) {
	for name, failure := range map[string]error{"done": nil, "failed": errors.New("half of it")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g flight.Group[string, int]
				work := func(ctx context.Context) (int, error) {
					<-ctx.Done()
					return 7, failure
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := g.Do(ctx, "k", work)
				if got != 7 || (err == nil) != (failure == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Do gives %d, %v, want 7 and the caller's error if the work has one", got, err)
				}
			})
		})
	}
}

func TestWorkAfterTheLastLeftIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		ctx, cancel := context.WithCancel(t.Context())
		stuck := make(chan struct{})
		go func() { _, _ = g.Do(ctx, "k", func(context.Context) (int, error) { <-stuck; return 1, nil }) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got, err := g.Do(t.Context(), "k", func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
			t.Errorf("Do gives %d, %v, want the new work's 2", got, err)
		}
		close(stuck)
	})
}

// Whoever does not give up gets an answer of work for its own key that was under way
// at some time of its wait, and no key has two pieces of work that somebody waits for.
func TestRandomCallers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type caller struct{ start, patience, key int }
		callers := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) caller {
			return caller{rapid.IntRange(0, 20).Draw(rt, "start"), rapid.IntRange(1, 15).Draw(rt, "patience"), rapid.IntRange(0, 1).Draw(rt, "key")}
		}), 1, 12).Draw(rt, "callers")
		takes := rapid.IntRange(1, 10).Draw(rt, "takes")
		synctest.Test(t, func(t *testing.T) {
			var g flight.Group[int, string]
			var active [2]atomic.Int32
			var runs atomic.Int32
			var wg sync.WaitGroup
			for _, c := range callers {
				wg.Go(func() {
					<-time.After(time.Duration(c.start) * time.Second)
					// Half a second keeps patience from ending at the very moment of an answer.
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(c.patience)*time.Second+time.Second/2)
					defer cancel()
					got, err := g.Do(ctx, c.key, func(ctx context.Context) (string, error) {
						runs.Add(1)
						if active[c.key].Add(1) > 1 {
							t.Errorf("two pieces of work for key %d", c.key)
						}
						defer active[c.key].Add(-1)
						select {
						case <-ctx.Done():
							return "", ctx.Err()
						case <-time.After(time.Duration(takes) * time.Second):
							return fmt.Sprint("answer ", c.key), nil
						}
					})
					if want := fmt.Sprint("answer ", c.key); err == nil && got != want {
						t.Errorf("answer is %q, want %q", got, want)
					}
					if err != nil && c.patience >= takes {
						t.Errorf("a caller that waits %ds for what takes at most %ds got %v", c.patience, takes, err)
					}
				})
			}
			wg.Wait()
			if n := int(runs.Load()); n > len(callers) {
				t.Errorf("%d runs for %d callers", n, len(callers))
			}
		})
	})
}
