// Command probeengine compares the Engine of package probes with the usual design,
// one goroutine and one ticker for each probe: CPU and memory per probe. Both make
// the same attempts with the same prober, timeout and thresholds, each in a process
// of its own, in turns.
//
//	go run ./probeengine
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/hack/bench/internal/usage"
	"github.com/nodekit-go/nodekit/probes"
)

func main() {
	contender := flag.String("contender", "", "run one: engine or tickers (used by the program itself)")
	count := flag.Int("probes", 10000, "probes")
	period := flag.Duration("period", time.Second, "time between attempts at a probe")
	length := flag.Duration("length", 10*time.Second, "length of a round")
	rounds := flag.Int("rounds", 3, "rounds, of which the medians count")
	mostCPU := flag.Float64("max-cpu", 0, "fail above this share of the tickers' CPU (0: never)")
	mostMemory := flag.Float64("max-memory", 0, "fail above this share of the tickers' memory (0: never)")
	flag.Parse()
	l := load{*count, *period, *length}
	run := func() error { return compare(os.Stdout, l, *rounds, *mostCPU, *mostMemory) }
	if *contender != "" {
		run = func() error { return measure(os.Stdout, *contender, l) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "probeengine:", err)
		os.Exit(1)
	}
}

// load is how much to probe, and for how long.
type load struct {
	probes         int
	period, length time.Duration
}

// measurement is what a process found about itself.
type measurement struct {
	Attempts int64
	CPU      time.Duration
	Memory   uint64
}

func (m measurement) cpuPerAttempt() float64 { return float64(m.CPU) / float64(m.Attempts) }

// attempts counts what the probers have done.
var attempts atomic.Int64

// prober is healthy.
func prober(context.Context) (probes.Result, error) {
	attempts.Add(1)
	return probes.Result{Outcome: probes.Success, Message: "ok"}, nil
}

func ref(i int) probes.Ref {
	id := strconv.Itoa(i)
	return probes.Ref{ID: id, Name: "app", Namespace: "default", Pod: "pod-" + id, UID: types.UID(id)}
}

// measure runs one contender in this process.
func measure(out io.Writer, contender string, l load) error {
	before := usage.Memory()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var keep any
	switch contender {
	case "engine":
		e, err := runEngine(ctx, &wg, l)
		if err != nil {
			return err
		}
		keep = e
	case "tickers":
		keep = runTickers(ctx, &wg, l)
	default:
		return fmt.Errorf("no contender %q", contender)
	}
	// All have started after a period.
	time.Sleep(2 * l.period)
	cpu, n := usage.CPU(), attempts.Load()
	time.Sleep(l.length)
	m := measurement{CPU: usage.CPU() - cpu, Attempts: attempts.Load() - n}
	m.Memory = usage.Memory() - before
	if keep == nil {
		return errors.New("nothing was measured")
	}
	return json.NewEncoder(out).Encode(m)
}

func runEngine(ctx context.Context, wg *sync.WaitGroup, l load) (*probes.Engine, error) {
	e, err := probes.New(probes.Config{})
	if err != nil {
		return nil, err
	}
	wg.Go(func() { _ = e.Run(ctx) })
	for i := range l.probes {
		err := e.Add(probes.Container{
			Ref: ref(i),
			// As after a restart of the agent, when attempts are spread over a period.
			StartedAt: time.Now().Add(-time.Hour),
			Liveness:  &probes.Probe{Prober: probes.ProberFunc(prober), Schedule: probes.Schedule{Period: l.period}},
		})
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// table holds the results of the tickers.
type table struct {
	mu   sync.Mutex
	byID map[string]*row
}

// row is what is kept about a probe.
type row struct {
	ref     probes.Ref
	tracker probes.Tracker
	last    probes.Result
	at      time.Time
	took    time.Duration
	counts  probes.Counts
}

func runTickers(ctx context.Context, wg *sync.WaitGroup, l load) *table {
	t := &table{byID: make(map[string]*row)}
	for i := range l.probes {
		r := &row{ref: ref(i), tracker: probes.NewTracker(probes.Liveness, probes.Schedule{})}
		t.mu.Lock()
		t.byID[r.ref.ID] = r
		t.mu.Unlock()
		wg.Go(func() {
			select {
			case <-time.After(rand.N(l.period)):
			case <-ctx.Done():
				return
			}
			ticker := time.NewTicker(l.period)
			defer ticker.Stop()
			for {
				t.attempt(ctx, r)
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return t
}

func (t *table) attempt(ctx context.Context, r *row) {
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, probes.DefaultTimeout)
	res, err := prober(call)
	cancel()
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.tracker.Observe(res.Outcome)
	r.last, r.at, r.took = res, began, time.Since(began)
	r.counts.Successful++
}

// compare runs the contenders in turns and prints the medians.
func compare(out io.Writer, l load, rounds int, mostCPU, mostMemory float64) error {
	names := []string{"tickers", "engine"}
	runs := map[string][]measurement{}
	for range rounds {
		for _, name := range names {
			m, err := child(name, l)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			runs[name] = append(runs[name], m)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "design\tattempts/s\tCPU µs/attempt\tbytes/probe\t")
	cpu, memory := map[string]float64{}, map[string]float64{}
	for _, name := range names {
		rate := median(runs[name], func(m measurement) float64 { return float64(m.Attempts) / l.length.Seconds() })
		cpu[name] = median(runs[name], measurement.cpuPerAttempt)
		memory[name] = median(runs[name], func(m measurement) float64 { return float64(m.Memory) / float64(l.probes) })
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.0f\t\n", name, rate, cpu[name]/1e3, memory[name])
	}
	cpuRatio, memoryRatio := cpu["engine"]/cpu["tickers"], memory["engine"]/memory["tickers"]
	fmt.Fprintf(w, "ratio\t\t%.2f\t%.2f\t\n", cpuRatio, memoryRatio)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "medians of %d rounds: %d probes, every %s, for %s\n", rounds, l.probes, l.period, l.length)
	var errs []error
	if mostCPU > 0 && cpuRatio > mostCPU {
		errs = append(errs, fmt.Errorf("the engine takes %.2f of the tickers' CPU, more than %.2f", cpuRatio, mostCPU))
	}
	if mostMemory > 0 && memoryRatio > mostMemory {
		errs = append(errs, fmt.Errorf("the engine takes %.2f of the tickers' memory, more than %.2f", memoryRatio, mostMemory))
	}
	return errors.Join(errs...)
}

// child runs one contender in another process.
func child(name string, l load) (measurement, error) {
	self, err := os.Executable()
	if err != nil {
		return measurement{}, err
	}
	cmd := exec.Command(self, "-contender", name, "-probes", strconv.Itoa(l.probes),
		"-period", l.period.String(), "-length", l.length.String())
	cmd.Stderr = os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return measurement{}, err
	}
	var m measurement
	return m, json.Unmarshal(answer, &m)
}

func median(runs []measurement, key func(measurement) float64) float64 {
	values := make([]float64, len(runs))
	for i, m := range runs {
		values[i] = key(m)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
