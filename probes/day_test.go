package probes

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

const (
	dayContainers = 1000
	dayPeriod     = time.Minute
	// The delays keep the probes of a container apart, and a restart apart from all of
	// them, so that nothing depends on the order within one moment.
	dayLiveness  = 20300 * time.Millisecond
	dayReadiness = 40700 * time.Millisecond
	dayRestart   = 1100 * time.Millisecond
)

// dayLength is how long the test lasts on the clock of its bubble. A whole day
// takes some minutes under the race detector.
func dayLength() time.Duration {
	if os.Getenv("NODEKIT_LONG") != "" {
		return 24 * time.Hour
	}
	return time.Hour
}

// call names one call of a prober: of which container and which life of it, of
// which probe, and the how manieth.
type call struct {
	container, life int
	kind            Kind
	n               int
}

// answer is what the prober finds: random, and the same each time it is asked.
func (c call) answer() Outcome {
	h := fnv.New32a()
	fmt.Fprint(h, c.container, c.life, c.kind, c.n)
	switch n := h.Sum32() % 100; {
	case n < 20:
		return Failure
	case n < 25:
		return Unknown
	case n < 27:
		return Warning
	}
	return Success
}

// diary sums up what happened to a container.
type diary struct {
	Restarts int
	Attempts [kinds]int
	Ready    int           // how often it became ready
	Digest   [kinds]uint64 // of life, time and outcome of each attempt
}

func (d *diary) attempt(k Kind, life int, at time.Duration, o Outcome) {
	d.Attempts[k]++
	for _, n := range []uint64{uint64(life), uint64(at), uint64(o)} {
		d.Digest[k] = (d.Digest[k] ^ n) * 1099511628211
	}
}

func firstStart(container int) time.Duration { return time.Duration(container*10) * time.Millisecond }

// after is when the attempt after one at a time is made: on a quarter of a second.
func after(at time.Duration) time.Duration {
	const quarter = time.Second / 4
	return (at + dayPeriod + quarter - 1) / quarter * quarter
}

// model works out what has to happen to a container until the end.
func model(container int, end time.Duration) diary {
	var d diary
	started := firstStart(container)
	for life := 0; ; life++ {
		calls := [kinds]int{}
		// try is one attempt: an error is tried again twice.
		try := func(k Kind, at time.Duration) Outcome {
			o := Unknown
			for range 3 {
				o = call{container, life, k, calls[k]}.answer()
				calls[k]++
				if o != Unknown {
					break
				}
			}
			d.attempt(k, life, at, o)
			return o
		}
		// until makes attempts from one time on until three in a row have failed, or
		// one has succeeded if that is the goal, and returns when that was.
		until := func(k Kind, from time.Duration, goal bool) (time.Duration, bool) {
			failures := 0
			for at := from; at < end; at = after(at) {
				switch o := try(k, at); {
				case o == Failure:
					if failures++; failures == 3 {
						return at, false
					}
				case o != Unknown && goal:
					return at, true
				case o != Unknown:
					failures = 0
				}
			}
			return end, false
		}
		dies, ok := until(Startup, started, true)
		if ok {
			up := dies
			dies, _ = until(Liveness, max(up, started+dayLiveness), false)
			ready, failures := false, 0
			for at := max(up, started+dayReadiness); at < min(end, dies+dayRestart); at = after(at) {
				switch o := try(Readiness, at); {
				case o == Failure:
					if failures++; failures >= 3 {
						ready = false
					}
				case o != Unknown:
					failures = 0
					if !ready {
						d.Ready++
					}
					ready = true
				}
			}
		}
		started = dies + dayRestart
		if started >= end {
			return d
		}
		d.Restarts++
	}
}

// day is an agent that keeps containers running and writes their diaries.
type day struct {
	t      *testing.T
	engine *Engine
	began  time.Time

	mu      sync.Mutex
	diaries []diary
}

func (d *day) start(container, life int) {
	probe := func(k Kind, delay time.Duration) *Probe {
		n := 0 // there is one call at a time
		return &Probe{
			Prober: ProberFunc(func(context.Context) (Result, error) {
				o := call{container, life, k, n}.answer()
				n++
				if o == Unknown {
					return Result{}, errors.New("no answer")
				}
				return Result{Outcome: o}, nil
			}),
			Schedule: Schedule{Period: dayPeriod, InitialDelay: delay},
		}
	}
	err := d.engine.Add(Container{
		Ref:       Ref{ID: fmt.Sprintf("%d/%d", container, life), UID: types.UID(fmt.Sprint(container))},
		Startup:   probe(Startup, 0),
		Liveness:  probe(Liveness, dayLiveness),
		Readiness: probe(Readiness, dayReadiness),
	})
	if err != nil {
		d.t.Error(err)
	}
}

func (d *day) of(r Ref) (container, life int) {
	if _, err := fmt.Sscanf(r.ID, "%d/%d", &container, &life); err != nil {
		d.t.Error(err)
	}
	return container, life
}

func (d *day) attempted(a Attempt) {
	container, life := d.of(a.Ref)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.diaries[container].attempt(a.Kind, life, a.At.Sub(d.began), a.Result.Outcome)
}

func (d *day) changed(c Change) {
	container, life := d.of(c.Ref)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case c.Kind == Readiness && c.To == Success:
		d.diaries[container].Ready++
	case c.Kind != Readiness && c.To == Failure:
		time.AfterFunc(dayRestart, func() {
			d.engine.Remove(c.Ref.ID)
			d.mu.Lock()
			d.diaries[container].Restarts++
			d.mu.Unlock()
			d.start(container, life+1)
		})
	}
}

// A long time with random failures goes as a simple model says, attempt for
// attempt and to the moment.
func TestEngineForADay(t *testing.T) {
	end := dayLength()
	synctest.Test(t, func(t *testing.T) {
		d := &day{t: t, began: time.Now(), diaries: make([]diary, dayContainers)}
		engine, err := New(Config{Hooks: Hooks{Attempted: d.attempted, Changed: d.changed}})
		if err != nil {
			t.Fatal(err)
		}
		d.engine = engine
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := engine.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		for i := range dayContainers {
			time.AfterFunc(firstStart(i), func() { d.start(i, 0) })
		}
		<-time.After(end - time.Nanosecond)
		cancel()
		wg.Wait()
		total := 0
		for i := range dayContainers {
			want := model(i, end)
			for _, n := range want.Attempts {
				total += n
			}
			if diff := cmp.Diff(want, d.diaries[i]); diff != "" {
				t.Errorf("container %d (-want +got):\n%s", i, diff)
			}
		}
		if t.Failed() || total < int(end/dayPeriod)*dayContainers {
			t.Errorf("%d attempts", total)
		}
		t.Logf("%d attempts at the probes of %d containers in %s", total, dayContainers, end)
		// Pending restarts belong to the bubble, not to the Engine.
		<-time.After(dayRestart)
	})
}
