package runtimetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestLives(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		life runtimetest.Life
		// stop asks the container to end after an hour, with this grace period in
		// seconds; negative means that nobody asks.
		stop int64
		// want is the state after a day.
		want string
	}{
		{"runs until it is stopped", runtimetest.Life{}, -1, "running"},
		{"ends at once", runtimetest.Exits(0, 0), -1, "Completed, code 0, after 0s"},
		{"ends by itself", runtimetest.Exits(90*time.Minute, 3), -1, "Error, code 3, after 1h30m0s"},
		{"ends for want of memory", runtimetest.OOMs(time.Minute), -1, "OOMKilled, code 137, after 1m0s"},
		{"ends when asked", runtimetest.Life{}, 30, "Error, code 143, after 1h0m0s"},
		{"ends well some time after it was asked", runtimetest.Life{Term: &runtimetest.Exit{After: 5 * time.Second}}, 30, "Completed, code 0, after 1h0m5s"},
		{"takes too long", runtimetest.Life{Term: &runtimetest.Exit{After: time.Minute}}, 30, "Error, code 137, after 1h0m30s"},
		{"ignores being asked", runtimetest.Life{IgnoreTerm: true}, 30, "Error, code 137, after 1h0m30s"},
		{"ends by itself while ignoring", runtimetest.Life{IgnoreTerm: true, Exit: &runtimetest.Exit{After: time.Hour + time.Second}}, 30, "Completed, code 0, after 1h0m1s"},
		{"is killed without being asked", runtimetest.Life{}, 0, "Error, code 137, after 1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, runtimetest.Config{})
				w.server.SetLives("app", c.life)
				id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
				if c.stop >= 0 {
					elapse(time.Hour)
					began := time.Now()
					w.must(w.client.StopContainer(t.Context(), id, c.stop))
					if took := time.Since(began); took > time.Duration(c.stop)*time.Second {
						t.Errorf("the stop took %v of %d s", took, c.stop)
					}
					if got := w.state(id); got == "running" {
						t.Error("the container runs after the stop")
					}
				}
				elapse(day)
				w.wantState(id, c.want)
			})
		})
	}
}

func TestLifePerAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.SetLives("app", runtimetest.Exits(time.Second, 1), runtimetest.Exits(time.Minute, 2), runtimetest.Life{})
		sandbox := w.run(sandboxConfig("web"))
		for attempt, want := range []string{"Error, code 1, after 1s", "Error, code 2, after 1m0s", "running", "running"} {
			id := w.start(sandbox, containerConfig("app", uint32(attempt)))
			elapse(time.Hour)
			w.wantState(id, want)
		}
		// No lives are the script's again, here the default.
		w.server.SetLives("app")
		id := w.start(sandbox, containerConfig("app", 9))
		elapse(time.Hour)
		w.wantState(id, "running")
	})
}

func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{Script: func(i runtimetest.Instance) *runtimetest.Life {
			if i.Sandbox.GetMetadata().GetName() != "web" || i.Config.GetMetadata().GetName() != "short" {
				return nil
			}
			life := runtimetest.Exits(time.Minute, 0)
			return &life
		}})
		sandbox := w.run(sandboxConfig("web"))
		short, long := w.start(sandbox, containerConfig("short", 0)), w.start(sandbox, containerConfig("long", 0))
		elapse(time.Hour)
		w.wantState(short, "Completed, code 0, after 1m0s")
		w.wantState(long, "running")
	})
}

func TestStopIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.SetLives("app", runtimetest.Life{Term: &runtimetest.Exit{After: 20 * time.Second}})
		id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
		first := make(chan error)
		go func() { first <- w.client.StopContainer(t.Context(), id, 60) }()
		elapse(15 * time.Second)
		w.must(w.client.StopContainer(t.Context(), id, 60))
		w.must(<-first)
		w.wantState(id, "Completed, code 0, after 20s")
	})
}

func TestExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		sandbox := w.run(sandboxConfig("web"))
		id := w.start(sandbox, containerConfig("app", 0))
		if got, err := w.server.ContainerID("default/web", "app"); err != nil || got != id {
			t.Errorf("id of the container is %q, %v, want %q", got, err, id)
		}
		elapse(time.Minute)
		w.must(w.server.Exit("default/web", "app", runtimetest.Exit{Code: 7}))
		w.wantState(id, "Error, code 7, after 1m0s")
		if w.server.Exit("default/web", "app", runtimetest.Exit{}) == nil {
			t.Error("a container ended twice")
		}
		if _, err := w.server.ContainerID("default/db", "app"); err == nil {
			t.Error("a container was found in a pod that does not exist")
		}
		elapse(time.Minute)
		next := w.start(sandbox, containerConfig("app", 1))
		for range 20 {
			if got, err := w.server.ContainerID("default/web", "app"); err != nil || got != next {
				t.Errorf("id of the newest container is %q, %v, want %q", got, err, next)
			}
		}
	})
}

// TestNewestOfOneInstant has attempts that were made at the same time, as in a bubble.
func TestNewestOfOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		sandbox := w.run(sandboxConfig("web"))
		for attempt := range uint32(20) {
			id := w.start(sandbox, containerConfig("app", attempt))
			if got, err := w.server.ContainerID("default/web", "app"); err != nil || got != id {
				t.Errorf("newest container is %q, %v; want attempt %d, %q", got, err, attempt, id)
			}
			if err := w.server.Exit("default/web", "app", runtimetest.Exit{Code: 3}); err != nil {
				t.Errorf("attempt %d: %v", attempt, err)
			}
			w.wantState(id, "Error, code 3, after 0s")
		}
	})
}
