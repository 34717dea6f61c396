package probes_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

func TestExec(t *testing.T) {
	answer := func(code int, output string, err error) probes.ExecFunc {
		return func(context.Context, string, []string, time.Duration) (int, []byte, error) {
			return code, []byte(output), err
		}
	}
	tests := []struct {
		name    string
		run     probes.ExecFunc
		want    probes.Result
		wantErr string
	}{
		{name: "success", run: answer(0, "fine", nil), want: probes.Result{Outcome: probes.Success, Message: "fine"}},
		{name: "failure", run: answer(3, "not fine", nil), want: probes.Result{Outcome: probes.Failure, Message: "not fine"}},
		{
			name: "silent failure", run: answer(3, "", nil),
			want: probes.Result{Outcome: probes.Failure, Message: `["check" "me"] exited with code 3 and no output`},
		},
		{
			name: "the runtime says that time is over", run: answer(0, "", fmt.Errorf("exec: %w", context.DeadlineExceeded)),
			want: probes.Result{Outcome: probes.Failure, Message: `command timed out: "check me" timed out after 5s`},
		},
		{name: "the runtime does not answer", run: answer(0, "", errors.New("no such runtime")), wantErr: "no such runtime"},
		{name: "nothing to run it with", wantErr: "needs both"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := probes.Exec{Run: tt.run, Command: []string{"check", "me"}}
			got, err := e.ProbeTimeout(t.Context(), 5*time.Second)
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error is %v, want one with %q", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExecAloneEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := probestest.NewScript(probestest.Step{Takes: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		res, err := probes.Exec{Run: s.Exec, Command: []string{"sleep"}}.Probe(ctx)
		if err != nil || res.Outcome != probes.Failure || !strings.Contains(res.Message, "timed out after 3s") {
			t.Errorf("%+v, %v", res, err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %s", took)
		}
		if _, err = (probes.Exec{Run: s.Exec, Command: []string{"sleep"}}).Probe(t.Context()); err != nil {
			t.Errorf("without a deadline: %v", err)
		}
		want := []probestest.Call{
			{Command: []string{"sleep"}, Timeout: 3 * time.Second, Took: 3 * time.Second},
			{Command: []string{"sleep"}, Timeout: time.Second, Took: time.Second},
		}
		if diff := cmp.Diff(want, s.Calls(), cmpopts.IgnoreFields(probestest.Call{}, "At")); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// engine starts an Engine that lasts as long as the test.
func engine(t *testing.T, cfg probes.Config) *probes.Engine {
	t.Helper()
	e, err := probes.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return e
}

// pass lets time pass in a bubble, and everything that is due then happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func liveness(id string, p probes.Prober, s probes.Schedule) probes.Container {
	return probes.Container{
		Ref:      probes.Ref{ID: id, Name: "app", Namespace: "default", Pod: "pod", UID: types.UID(id)},
		Liveness: &probes.Probe{Prober: p, Schedule: s},
	}
}

// A command that hangs is a failure, whether the runtime ends it in time or only
// answers when the command is over; then no second one runs beside it.
func TestEngineHungCommandIsAFailure(t *testing.T) {
	tests := []struct {
		name  string
		step  probestest.Step
		calls []time.Duration
	}{
		{
			name:  "the runtime ends it",
			step:  probestest.Step{Takes: time.Second, Err: context.DeadlineExceeded},
			calls: []time.Duration{0, 5 * time.Second},
		},
		{
			name:  "the runtime answers late with exit code 0",
			step:  probestest.Step{Takes: 10 * time.Second, Deaf: true},
			calls: []time.Duration{0, 15 * time.Second},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var attempts []probes.Attempt
				var restarts []probes.Change
				e := engine(t, probes.Config{Hooks: probes.Hooks{
					Attempted: func(a probes.Attempt) { attempts = append(attempts, a) },
					Changed:   func(c probes.Change) { restarts = append(restarts, c) },
				}})
				s := probestest.NewScript(tt.step)
				p := probes.Exec{Run: s.Exec, ContainerID: "c", Command: []string{"sh", "-c", "sleep 10; exit 0"}}
				schedule := probes.Schedule{Timeout: time.Second, Period: 5 * time.Second, FailureThreshold: 2}
				if err := e.Add(liveness("c", p, schedule)); err != nil {
					t.Fatal(err)
				}
				pass(30 * time.Second)
				for _, a := range attempts {
					if a.Result.Outcome != probes.Failure || !strings.Contains(a.Result.Message, "timed out") {
						t.Errorf("result: %+v", a.Result)
					}
					if a.Duration > 2*time.Second {
						t.Errorf("an attempt took %s", a.Duration)
					}
				}
				var calls []time.Duration
				for _, c := range s.Calls() {
					calls = append(calls, c.At.Sub(began))
					if c.Timeout != time.Second {
						t.Errorf("the runtime was told %s", c.Timeout)
					}
				}
				if diff := cmp.Diff(tt.calls, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if _, most := s.InFlight(); most != 1 {
					t.Errorf("%d commands at a time", most)
				}
				if len(restarts) != 1 || restarts[0].To != probes.Failure {
					t.Errorf("changes: %+v, want one that asks for a restart", restarts)
				}
			})
		})
	}
}

// Starting a command and cleaning up after it takes time on a busy node, which is not the
// command's.
func TestEngineTakesTheWordOfASlowRuntime(t *testing.T) {
	late := probes.Result{Outcome: probes.Failure, Message: `command timed out: "check me" timed out after 1s`}
	tests := []struct {
		name  string
		takes time.Duration
		code  int
		want  probes.Result
	}{
		{"success", 1700 * time.Millisecond, 0, probes.Result{Outcome: probes.Success, Message: "words"}},
		{"failure", 1700 * time.Millisecond, 3, probes.Result{Outcome: probes.Failure, Message: "words"}},
		{"success that is too late", 2 * time.Second, 0, late},
		{"failure that is too late", 2 * time.Second, 3, late},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := func(context.Context, string, []string, time.Duration) (int, []byte, error) {
					<-time.After(tt.takes)
					return tt.code, []byte("words"), nil
				}
				p := probes.Exec{Run: run, Command: []string{"check", "me"}}
				alone, err := p.ProbeTimeout(t.Context(), time.Second)
				if err != nil {
					t.Fatal(err)
				}
				var attempts []probes.Result
				e := engine(t, probes.Config{Hooks: probes.Hooks{Attempted: func(a probes.Attempt) { attempts = append(attempts, a.Result) }}})
				if err := e.Add(liveness("c", p, probes.Schedule{Timeout: time.Second, Period: time.Hour})); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				if diff := cmp.Diff([]probes.Result{tt.want, tt.want}, append(attempts, alone)); diff != "" {
					t.Errorf("results in an Engine and alone (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEngineWaitsForACommandOfTheSameContainerAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, probes.Config{})
		s := probestest.NewScript(probestest.Step{Takes: 12 * time.Second, Deaf: true}, probestest.Succeed())
		c := liveness("c", probes.Exec{Run: s.Exec, Command: []string{"x"}}, probes.Schedule{Period: 5 * time.Second, FailureThreshold: 9})
		for range 2 {
			if err := e.Add(c); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			e.Remove("c")
		}
		if err := e.Add(c); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		if _, most := s.InFlight(); most != 1 {
			t.Errorf("%d commands at a time", most)
		}
		st, _ := e.Status("c")
		if got := st.Probes[0].Counts; got.Successful == 0 || got.Skipped == 0 {
			t.Errorf("counts: %+v", got)
		}
	})
}

func TestEngineBoundsCommandsAndPodsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		e := engine(t, probes.Config{MaxExec: limit})
		var mu sync.Mutex
		var order []string
		running, most := 0, 0
		run := func(_ context.Context, id string, _ []string, _ time.Duration) (int, []byte, error) {
			mu.Lock()
			order = append(order, id)
			running++
			most = max(most, running)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return 0, nil, nil
		}
		add := func(pod, id string) {
			c := liveness(id, probes.Exec{Run: run, ContainerID: id, Command: []string{"x"}}, probes.Schedule{Timeout: time.Minute, Period: time.Hour})
			c.Ref.UID = types.UID(pod)
			if err := e.Add(c); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for i := range 8 {
			add("big", fmt.Sprintf("big-%d", i))
		}
		add("small", "small-0")
		if l := e.Load(); l.Commands != limit || l.Waiting != 7 {
			t.Errorf("load is %+v", l)
		}
		pass(10 * time.Second)
		if most != limit {
			t.Errorf("%d commands at a time, want %d", most, limit)
		}
		if len(order) != 9 {
			t.Fatalf("order: %v", order)
		}
		if order[3] != "small-0" && order[2] != "small-0" {
			t.Errorf("the small pod had to wait for the big one: %v", order)
		}
	})
}

func TestEngineHungCommandsGiveTheirPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, probes.Config{MaxExec: 1})
		hung := probestest.NewScript(probestest.Step{Takes: 3 * time.Hour, Deaf: true})
		well := probestest.NewScript()
		for id, s := range map[string]*probestest.Script{"hung": hung, "well": well} {
			c := liveness(id, probes.Exec{Run: s.Exec, Command: []string{"x"}}, probes.Schedule{FailureThreshold: 100})
			if err := e.Add(c); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Hour + 5*time.Second)
		if n := len(hung.Calls()); n != 1 {
			t.Errorf("%d hung commands", n)
		}
		if n := len(well.Calls()); n < 360 {
			t.Errorf("%d attempts at the other probe in an hour, want at least 360", n)
		}
		if l := e.Load(); l.Overrun != 1 || l.Running != 1 || l.Commands != 0 {
			t.Errorf("load is %+v", l)
		}
		pass(3 * time.Hour)
	})
}

// What a command prints is cut, and the rest is not kept in memory.
func TestEngineBoundsOutput(t *testing.T) {
	const rounds, size = 200, 32 << 20
	output := []byte(strings.Repeat("\u00e9", size/2))
	for _, code := range []int{0, 1} {
		t.Run(fmt.Sprintf("exit code %d", code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := probes.Success
				if code != 0 {
					want = probes.Failure
				}
				attempts := 0
				e := engine(t, probes.Config{Hooks: probes.Hooks{Attempted: func(a probes.Attempt) {
					attempts++
					if a.Result.Outcome != want {
						t.Errorf("result is %v, want %v", a.Result.Outcome, want)
					}
					event, _ := a.Event()
					for _, text := range []string{a.Result.Message, event.Message} {
						if len(text) > probes.MaxOutput+100 || !utf8.ValidString(text) {
							t.Errorf("a text of %d bytes", len(text))
						}
					}
				}}})
				run := func(context.Context, string, []string, time.Duration) (int, []byte, error) { return code, output, nil }
				before := heap()
				if err := e.Add(liveness("c", probes.Exec{Run: run, Command: []string{"yes"}}, probes.Schedule{Period: 2 * time.Second, FailureThreshold: 100000})); err != nil {
					t.Fatal(err)
				}
				pass(rounds*2*time.Second - time.Second)
				if attempts != rounds {
					t.Errorf("%d attempts, want %d", attempts, rounds)
				}
				if after := heap(); after > before+1<<20 {
					t.Errorf("the heap grew from %d to %d", before, after)
				}
			})
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
