package probes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
)

// rig is an Engine in a bubble, with a log of what its hooks were told.
type rig struct {
	*Engine
	t     *testing.T
	began time.Time
	stop  func()

	mu       sync.Mutex
	changes  []string
	attempts []Attempt
}

// newRig starts an Engine without jitter. It ends with the test.
func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := &rig{t: t, began: time.Now()}
	cfg.Hooks = Hooks{Changed: r.changed, Attempted: r.attempted}
	e, err := newWith(cfg, func(time.Duration) time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	r.Engine = e
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	r.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(r.stop)
	return r
}

func (r *rig) changed(c Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, fmt.Sprintf("%s %s %s", time.Since(r.began), c.Kind, c.To))
}

func (r *rig) attempted(a Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, a)
}

// made returns the attempts so far.
func (r *rig) made() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.attempts)
}

func (r *rig) add(c Container) {
	r.t.Helper()
	if err := r.Add(c); err != nil {
		r.t.Fatal(err)
	}
}

// runTo lets time pass until d after the start, and everything that is due then
// happen.
func (r *rig) runTo(d time.Duration) {
	pass(d - time.Since(r.began))
}

// pass lets time pass, and everything that is due then happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantChanges compares the changes so far, and forgets them.
func (r *rig) wantChanges(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.changes, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("changes until %s (-want +got):\n%s", time.Since(r.began), diff)
	}
	r.changes = nil
}

// prober is a Prober that answers with the outcomes of a string, the last one
// over and over, and remembers when it was called.
type prober struct {
	outcomes string
	began    time.Time
	takes    time.Duration

	mu    sync.Mutex
	calls []time.Duration
}

func script(outcomes string) *prober { return &prober{outcomes: outcomes, began: time.Now()} }

func (p *prober) Probe(ctx context.Context) (Result, error) {
	p.mu.Lock()
	n := len(p.calls)
	p.calls = append(p.calls, time.Since(p.began))
	p.mu.Unlock()
	if p.takes > 0 {
		select {
		case <-time.After(p.takes):
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
	o := letters[p.outcomes[min(n, len(p.outcomes)-1)]]
	if o == Unknown {
		return Result{}, errors.New("no answer")
	}
	return Result{Outcome: o}, nil
}

func (p *prober) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

func (p *prober) wantCalls(t *testing.T, want ...time.Duration) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.calls, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func seconds(list ...float64) []time.Duration {
	out := make([]time.Duration, len(list))
	for i, s := range list {
		out[i] = time.Duration(s * float64(time.Second))
	}
	return out
}

func ref(id string) Ref {
	return Ref{ID: id, Name: "app", Namespace: "default", Pod: "pod-" + id, UID: types.UID("uid-" + id)}
}

func TestEngineReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		p := script("ffsfffs")
		r.add(Container{Ref: ref("a"), Readiness: &Probe{Prober: p, Schedule: Schedule{Period: 2 * time.Second}}})
		r.runTo(0)
		if v, ok := r.Values("a"); !ok || v.Ready() || !v.Started() {
			t.Errorf("values at the start: %+v, %t", v, ok)
		}
		r.runTo(13 * time.Second)
		p.wantCalls(t, seconds(0, 2, 4, 6, 8, 10, 12)...)
		r.wantChanges("4s Readiness success", "10s Readiness failure", "12s Readiness success")
		if v, _ := r.Values("a"); !v.Ready() {
			t.Errorf("values at the end: %+v", v)
		}
	})
}

func TestEngineInitialDelayCountsFromTheStartOfTheContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass(time.Minute)
		r := newRig(t, Config{})
		p, q := script("s"), script("s")
		schedule := Schedule{InitialDelay: 5 * time.Second, Period: 10 * time.Second}
		r.add(Container{Ref: ref("a"), Liveness: &Probe{Prober: p, Schedule: schedule}})
		r.add(Container{
			Ref: ref("b"), StartedAt: time.Now().Add(-2 * time.Second),
			Liveness: &Probe{Prober: q, Schedule: schedule},
		})
		r.runTo(20 * time.Second)
		p.wantCalls(t, seconds(5, 15)...)
		q.wantCalls(t, seconds(3, 13)...)
	})
}

func TestEngineStartupGatesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		s, l, p := script("ffs"), script("s"), script("s")
		r.add(Container{
			Ref:       ref("a"),
			Startup:   &Probe{Prober: s, Schedule: Schedule{Period: 3 * time.Second, FailureThreshold: 10}},
			Liveness:  &Probe{Prober: l, Schedule: Schedule{Period: 5 * time.Second, InitialDelay: 8 * time.Second}},
			Readiness: &Probe{Prober: p, Schedule: Schedule{Period: 60 * time.Second}},
		})
		r.runTo(5 * time.Second)
		if v, _ := r.Values("a"); v.Started() || v.Ready() {
			t.Errorf("values while starting: %+v", v)
		}
		if r.Trigger("a", Readiness) {
			t.Error("readiness was triggered before the container had started")
		}
		r.runTo(20 * time.Second)
		s.wantCalls(t, seconds(0, 3, 6)...)
		l.wantCalls(t, seconds(8, 13, 18)...)
		p.wantCalls(t, 6*time.Second) // at once, not a period later
		r.wantChanges("6s Startup success", "6s Readiness success")
	})
}

func TestEngineStartupFailureEndsProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		s, l := script("f"), script("s")
		r.add(Container{
			Ref:      ref("a"),
			Startup:  &Probe{Prober: s, Schedule: Schedule{Period: time.Second, FailureThreshold: 2}},
			Liveness: &Probe{Prober: l},
		})
		r.runTo(time.Minute)
		s.wantCalls(t, seconds(0, 1)...)
		l.wantCalls(t)
		r.wantChanges("1s Startup failure")
		v, _ := r.Values("a")
		if k, ok := v.Restart(); !ok || k != Startup {
			t.Errorf("Restart() = %v, %t", k, ok)
		}
	})
}

func TestEngineHoldsUntilThereIsANewContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		grace := 7 * time.Second
		l, p := script("sffs"), script("s")
		c := Container{
			Ref:       ref("a"),
			Liveness:  &Probe{Prober: l, Schedule: Schedule{Period: time.Second, FailureThreshold: 2}, Grace: &grace},
			Readiness: &Probe{Prober: p, Schedule: Schedule{Period: 10 * time.Second}},
		}
		r.add(c)
		r.runTo(25 * time.Second)
		l.wantCalls(t, seconds(0, 1, 2)...)
		p.wantCalls(t, seconds(0, 10, 20)...) // goes on
		r.wantChanges("0s Readiness success", "2s Liveness failure")
		if r.Trigger("a", Liveness) {
			t.Error("a probe on hold was triggered")
		}
		c.Liveness = &Probe{Prober: script("s")}
		r.add(c) // the same container, as after another sync of its pod
		if v, _ := r.Values("a"); v.Liveness != Failure {
			t.Errorf("liveness is %v after adding the same container", v.Liveness)
		}
		r.Remove("a")
		c.Ref.ID = "b"
		r.add(c)
		if v, _ := r.Values("b"); v != (Values{Success, Success, Failure}) {
			t.Errorf("values of a new container: %+v", v)
		}
	})
}

func TestEngineKeepsValuesOverARestartOfTheAgent(t *testing.T) {
	tests := []struct {
		name     string
		seed     *Values
		outcomes string
		want     []string
		first    Values
	}{
		{
			name: "ready stays ready", seed: &Values{Success, Success, Success}, outcomes: "s",
			first: Values{Success, Success, Success},
		},
		{
			name: "until the failures are enough", seed: &Values{Success, Success, Success}, outcomes: "f",
			first: Values{Success, Success, Success}, want: []string{"2m0s Readiness failure"},
		},
		{
			name: "unknown until the first success", seed: &Values{Success, Success, Unknown}, outcomes: "s",
			first: Values{Success, Success, Unknown}, want: []string{"0s Readiness success"},
		},
		{
			name: "a new container has to earn it", outcomes: "s",
			first: Values{Success, Success, Failure}, want: []string{"0s Readiness success"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{})
				p := script(tt.outcomes)
				r.add(Container{
					Ref: ref("a"), StartedAt: time.Now().Add(-time.Hour), Seed: tt.seed,
					Readiness: &Probe{Prober: p, Schedule: Schedule{Period: time.Minute}},
				})
				if v, _ := r.Values("a"); v != tt.first {
					t.Errorf("first values are %+v, want %+v", v, tt.first)
				}
				r.runTo(3*time.Minute + time.Second)
				r.wantChanges(tt.want...)
				p.wantCalls(t, seconds(0, 60, 120, 180)...)
			})
		})
	}
}

func TestEngineSeededStartupIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		s, l := script("f"), script("s")
		r.add(Container{
			Ref: ref("a"), Seed: &Values{Success, Success, Success},
			Startup: &Probe{Prober: s}, Liveness: &Probe{Prober: l},
		})
		r.runTo(time.Second)
		s.wantCalls(t)
		l.wantCalls(t, 0)
		if v, _ := r.Values("a"); !v.Started() {
			t.Errorf("values are %+v", v)
		}
	})
}

func TestEngineSpreadsOldContainersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := newWith(Config{}, func(d time.Duration) time.Duration { return d / 2 })
		if err != nil {
			t.Fatal(err)
		}
		go e.Run(t.Context())
		schedule := Schedule{Period: 10 * time.Second}
		add := func(id string, age time.Duration) *prober {
			p := script("s")
			if err := e.Add(Container{
				Ref: ref(id), StartedAt: time.Now().Add(-age),
				Readiness: &Probe{Prober: p, Schedule: schedule},
			}); err != nil {
				t.Fatal(err)
			}
			return p
		}
		old, fresh := add("old", time.Hour), add("new", 0)
		<-time.After(12 * time.Second) // longer than a period
		late := add("found later", time.Hour)
		pass(4 * time.Second)
		synctest.Wait()
		old.wantCalls(t, seconds(5, 15)...)
		fresh.wantCalls(t, seconds(0, 10)...)
		late.wantCalls(t, 0)
	})
}

func TestEngineTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		l, p := script("sf"), script("ssssssssssf")
		schedule := Schedule{Period: 2 * time.Second, FailureThreshold: 1}
		c := Container{
			Ref:       ref("a"),
			Liveness:  &Probe{Prober: l, Schedule: Schedule{Period: 2 * time.Second, FailureThreshold: 20}},
			Readiness: &Probe{Prober: p, Schedule: schedule},
		}
		r.add(c)
		r.runTo(19 * time.Second)
		c.Terminating = true
		r.add(c)
		before := l.count()
		r.runTo(25 * time.Second)
		if after := l.count(); after != before {
			t.Errorf("liveness was probed %d times after the pod began to terminate", after-before)
		}
		p.wantCalls(t, seconds(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24)...)
		r.wantChanges("0s Readiness success", "20s Readiness failure")
		if v, _ := r.Values("a"); v.Liveness != Success {
			t.Errorf("liveness is %v", v.Liveness)
		}
	})
}

func TestEngineTerminatePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		probers := map[string]*prober{"a": script("s"), "b": script("s"), "c": script("s")}
		for id, p := range probers {
			c := Container{Ref: ref(id), Liveness: &Probe{Prober: p}}
			if id != "c" {
				c.Ref.UID = "pod"
			}
			r.add(c)
		}
		r.runTo(time.Second)
		r.TerminatePod("pod")
		r.TerminatePod("nobody")
		r.runTo(11 * time.Second)
		probers["a"].wantCalls(t, 0)
		probers["b"].wantCalls(t, 0)
		probers["c"].wantCalls(t, seconds(0, 10)...)
	})
}

func TestEngineTerminateCancelsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		s, p := script("f"), script("s")
		s.takes = 5 * time.Second
		r.add(Container{
			Ref:       ref("a"),
			Startup:   &Probe{Prober: s, Schedule: Schedule{Timeout: 10 * time.Second, FailureThreshold: 1}},
			Readiness: &Probe{Prober: p},
		})
		r.runTo(time.Second)
		r.Terminate("a")
		r.Terminate("nobody")
		r.runTo(8 * time.Second)
		if l := r.Load(); l.Running != 0 {
			t.Errorf("load is %+v", l)
		}
		r.wantChanges("1s Readiness success")
		if v, _ := r.Values("a"); v.Startup != Success {
			t.Errorf("values are %+v", v)
		}
	})
}

func TestEngineErrorsAreTriedAgainAndDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		p := script("f???f?f")
		r.add(Container{Ref: ref("a"), Liveness: &Probe{Prober: p, Schedule: Schedule{Period: time.Second}}})
		r.runTo(10 * time.Second)
		// Three tries at 1 s without an answer; at 3 s the second try has one.
		p.wantCalls(t, seconds(0, 1, 1, 1, 2, 3, 3)...)
		r.wantChanges("3s Liveness failure")
		st, _ := r.Status("a")
		want := Counts{Failed: 3, Unknown: 1}
		if diff := cmp.Diff(want, st.Probes[0].Counts); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

func TestEngineTimesOut(t *testing.T) {
	tests := []struct {
		name   string
		prober Prober
		text   string
	}{
		{
			name: "prober that heeds its context", text: "did not end within its timeout of 1s",
			prober: ProberFunc(func(ctx context.Context) (Result, error) {
				<-ctx.Done()
				return Result{}, fmt.Errorf("wrapped: %w", ctx.Err())
			}),
		},
		{
			name: "prober with words of its own", text: "I waited",
			prober: ProberFunc(func(ctx context.Context) (Result, error) {
				<-ctx.Done()
				return Result{Outcome: Failure, Message: "I waited"}, nil
			}),
		},
		{
			name: "prober that ignores its context and succeeds late", text: "did not end within its timeout of 1s",
			prober: ProberFunc(func(context.Context) (Result, error) {
				<-time.After(3 * time.Second)
				return Result{Outcome: Success}, nil
			}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{})
				r.add(Container{Ref: ref("a"), Liveness: &Probe{
					Prober:   tt.prober,
					Schedule: Schedule{FailureThreshold: 1},
				}})
				r.runTo(9 * time.Second)
				made := r.made()
				if len(made) != 1 {
					t.Fatalf("%d attempts", len(made))
				}
				a := made[0]
				if a.Result.Outcome != Failure || !strings.Contains(a.Result.Message, tt.text) {
					t.Errorf("result is %+v", a.Result)
				}
				if a.Duration < time.Second || a.Duration > 2*time.Second {
					t.Errorf("the attempt ended after %s", a.Duration)
				}
				if v, _ := r.Values("a"); v.Liveness != Failure {
					t.Errorf("values are %+v", v)
				}
			})
		})
	}
}

func TestEnginePanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		r.add(Container{Ref: ref("a"), Readiness: &Probe{
			Prober: ProberFunc(func(context.Context) (Result, error) { panic("oh") }),
		}})
		r.runTo(11 * time.Second)
		if made := r.made(); len(made) != 2 || made[1].Err == nil || !strings.Contains(made[1].Err.Error(), "panicked: oh") {
			t.Errorf("attempts: %+v", made)
		}
	})
}

func TestEngineTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		p := script("s")
		p.takes = 500 * time.Millisecond
		r.add(Container{Ref: ref("a"), Readiness: &Probe{
			Prober:   p,
			Schedule: Schedule{Period: 10 * time.Second, InitialDelay: 2 * time.Second},
		}})
		r.runTo(time.Second)
		if r.Trigger("a", Readiness) {
			t.Error("triggered during the initial delay")
		}
		r.runTo(6 * time.Second)
		if !r.Trigger("a", Readiness) {
			t.Error("not triggered while waiting")
		}
		r.runTo(6*time.Second + 100*time.Millisecond)
		if !r.Trigger("a", Readiness) {
			t.Error("not triggered while running")
		}
		if r.Trigger("a", Liveness) || r.Trigger("b", Readiness) || r.Trigger("a", Kind(9)) {
			t.Error("triggered what does not exist")
		}
		r.runTo(17 * time.Second)
		p.wantCalls(t, seconds(2, 6, 6.5, 16.5)...)
	})
}

func TestEngineEagerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		p := script("fffss")
		r.add(Container{Ref: ref("a"), Readiness: &Probe{
			Prober:   p,
			Schedule: Schedule{Period: 10 * time.Second, EagerPeriod: 250 * time.Millisecond},
		}})
		r.runTo(11 * time.Second)
		p.wantCalls(t, seconds(0, 0.25, 0.5, 0.75, 10.75)...)
	})
}

func TestEngineSlowAttemptsKeepTheGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		p := script("s")
		p.takes = 1200 * time.Millisecond
		r.add(Container{Ref: ref("a"), Readiness: &Probe{
			Prober:   p,
			Schedule: Schedule{Period: time.Second, Timeout: 5 * time.Second},
		}})
		r.runTo(7 * time.Second)
		// A point missed by a little is made up for at once.
		p.wantCalls(t, seconds(0, 1.2, 2.4, 3.6, 4.8, 6)...)
	})
}

func TestEngineRemoveEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var removed []Ref
		e, err := New(Config{Hooks: Hooks{
			Changed: func(Change) { t.Error("a value changed") },
			Removed: func(r Ref) { removed = append(removed, r) },
		}})
		if err != nil {
			t.Fatal(err)
		}
		go e.Run(t.Context())
		p := script("s")
		p.takes = time.Minute
		if err := e.Add(Container{Ref: ref("a"), Readiness: &Probe{Prober: p, Schedule: Schedule{Timeout: time.Hour}}}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		e.Remove("a")
		e.Remove("a")
		synctest.Wait()
		if l := e.Load(); l != (Load{}) {
			t.Errorf("load is %+v", l)
		}
		if _, ok := e.Values("a"); ok {
			t.Error("the container is still there")
		}
		if diff := cmp.Diff([]Ref{ref("a")}, removed); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
	})
}

func TestEngineSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		with := func(id string, uid types.UID) Container {
			c := Container{Ref: ref(id), Readiness: &Probe{Prober: script("s")}}
			c.Ref.UID = uid
			return c
		}
		bad := with("bad", "p")
		bad.Readiness.Prober = nil
		if err := r.Set("p", []Container{with("a", ""), bad, with("b", "")}); err == nil || !strings.Contains(err.Error(), "Readiness.Prober is nil") {
			t.Errorf("error is %v", err)
		}
		r.add(with("other", "q"))
		if err := r.Set("p", []Container{with("b", ""), with("c", "")}); err != nil {
			t.Error(err)
		}
		var got []string
		for _, s := range r.Snapshot() {
			got = append(got, s.Ref.ID+" of "+string(s.Ref.UID))
		}
		if diff := cmp.Diff([]string{"b of p", "c of p", "other of q"}, got); diff != "" {
			t.Errorf("containers (-want +got):\n%s", diff)
		}
		if err := r.Set("p", nil); err != nil {
			t.Error(err)
		}
		if n := len(r.Snapshot()); n != 1 {
			t.Errorf("%d containers are left", n)
		}
	})
}

func TestEngineStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		p := script("s")
		p.takes = time.Minute
		r.add(Container{Ref: ref("a"), Readiness: &Probe{Prober: p, Schedule: Schedule{Timeout: time.Hour}}})
		r.runTo(time.Second)
		r.stop()
		if _, running := r.Values("a"); !running {
			t.Error("the values are gone")
		}
		r.wantChanges()
		if made := r.made(); len(made) != 0 {
			t.Errorf("an attempt that was cut off was reported: %+v", made)
		}
		if err := r.Run(t.Context()); err == nil {
			t.Error("Run worked twice")
		}
	})
}

func TestEngineRejects(t *testing.T) {
	if _, err := New(Config{MaxExec: -1}); err == nil {
		t.Error("a negative MaxExec was taken")
	}
	e, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		c    Container
		want string
	}{
		{"no ID", Container{}, "Ref.ID is empty"},
		{"no prober", Container{Ref: ref("a"), Liveness: &Probe{}}, "Liveness.Prober is nil"},
		{
			"bad schedule",
			Container{Ref: ref("a"), Startup: &Probe{Prober: script("s"), Schedule: Schedule{SuccessThreshold: 2}}},
			"Startup.Schedule.SuccessThreshold is 2",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := e.Add(tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}
