// Command probehttp compares the HTTP prober of package probes with the one of the
// kubelet: probes per second, CPU per probe, and sockets left in TIME_WAIT. Both
// probe the same local server in turns; the server is a process of its own, so that
// its CPU is not counted.
//
//	go run ./probehttp
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/probe"
	upstream "k8s.io/kubernetes/pkg/probe/http"

	"github.com/nodekit-go/nodekit/hack/bench/internal/usage"
	"github.com/nodekit-go/nodekit/probes"
)

func main() {
	serve := flag.Bool("serve", false, "be the server (used by the program itself)")
	rounds := flag.Int("rounds", 7, "rounds, of which the medians count")
	attempts := flag.Int("attempts", 2000, "attempts of each contender in a round")
	workers := flag.Int("workers", 4, "attempts at a time")
	most := flag.Float64("max", 0, "fail when nodekit takes more than this share of the kubelet's CPU (0: never)")
	flag.Parse()
	run := func() error { return compare(os.Stdout, load{*rounds, *attempts, *workers}, *most) }
	if *serve {
		run = serveUntilEOF
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "probehttp:", err)
		os.Exit(1)
	}
}

// load is how much to probe.
type load struct{ rounds, attempts, workers int }

// contender is one implementation.
type contender struct {
	name string
	// prober returns a function that makes one attempt at the server at addr.
	prober func(addr string) (func(context.Context) error, error)
	runs   []measurement
}

// measurement is the outcome of one round.
type measurement struct {
	perSecond float64
	cpu       time.Duration // for each attempt
	timeWait  int
}

const timeout = 5 * time.Second

func action(addr string) (*corev1.HTTPGetAction, string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	number, err := strconv.Atoi(port)
	return &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt(number)}, host, err
}

// ours probes as an Engine does.
func ours(addr string) (func(context.Context) error, error) {
	get, host, err := action(addr)
	if err != nil {
		return nil, err
	}
	spec := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}}
	p, err := probes.FromSpec(probes.Liveness, spec, probes.Target{Host: host})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		res, err := p.Prober.Probe(ctx)
		if err != nil || res.Outcome != probes.Success {
			return fmt.Errorf("%v: %w", res, err)
		}
		return nil
	}, nil
}

// theirs probes as the kubelet does: with one prober for all, and a new request for
// each attempt.
func theirs(addr string) (func(context.Context) error, error) {
	get, host, err := action(addr)
	if err != nil {
		return nil, err
	}
	prober := upstream.New(false)
	container := &corev1.Container{}
	return func(context.Context) error {
		req, err := upstream.NewRequestForHTTPGetAction(get, container, host, "probe")
		if err != nil {
			return err
		}
		res, text, err := prober.Probe(req, timeout)
		if err != nil || res != probe.Success {
			return fmt.Errorf("%v %s: %w", res, text, err)
		}
		return nil
	}, nil
}

// compare runs the contenders in turns and prints the medians.
func compare(out io.Writer, l load, most float64) error {
	contenders := []*contender{{name: "kubelet", prober: theirs}, {name: "nodekit", prober: ours}}
	for range l.rounds {
		for _, c := range contenders {
			m, err := c.round(l)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.runs = append(c.runs, m)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "prober\tprobes/s\tCPU µs/probe\tTIME_WAIT\t")
	for _, c := range contenders {
		m := c.median()
		fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%d\t\n", c.name, m.perSecond, float64(m.cpu)/1e3, m.timeWait)
	}
	theirs, ours := contenders[0].median(), contenders[1].median()
	ratio := float64(ours.cpu) / float64(theirs.cpu)
	fmt.Fprintf(w, "ratio\t%.2f\t%.2f\t\t\n", ours.perSecond/theirs.perSecond, ratio)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "medians of %d rounds of %d attempts, %d at a time\n", l.rounds, l.attempts, l.workers)
	if most > 0 && ratio > most {
		return fmt.Errorf("nodekit takes %.2f of the kubelet's CPU, more than %.2f", ratio, most)
	}
	return nil
}

func (c *contender) median() measurement {
	by := func(key func(measurement) float64) measurement {
		runs := slices.Clone(c.runs)
		slices.SortFunc(runs, func(a, b measurement) int {
			switch x, y := key(a), key(b); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		return runs[len(runs)/2]
	}
	return measurement{
		perSecond: by(func(m measurement) float64 { return m.perSecond }).perSecond,
		cpu:       by(func(m measurement) float64 { return float64(m.cpu) }).cpu,
		timeWait:  by(func(m measurement) float64 { return float64(m.timeWait) }).timeWait,
	}
}

// round probes a server of its own.
func (c *contender) round(l load) (measurement, error) {
	s, err := startServer()
	if err != nil {
		return measurement{}, err
	}
	defer s.stop()
	probeOnce, err := c.prober(s.addr)
	if err != nil {
		return measurement{}, err
	}
	// The first attempts pay for what is made once.
	if err := attempts(probeOnce, 50, l.workers); err != nil {
		return measurement{}, err
	}
	before, began := usage.CPU(), time.Now()
	if err := attempts(probeOnce, l.attempts, l.workers); err != nil {
		return measurement{}, err
	}
	took, cpu := time.Since(began), usage.CPU()-before
	waiting, err := timeWaits(s.addr)
	return measurement{
		perSecond: float64(l.attempts) / took.Seconds(),
		cpu:       cpu / time.Duration(l.attempts),
		timeWait:  waiting,
	}, err
}

// attempts makes n attempts, some at a time.
func attempts(probeOnce func(context.Context) error, n, workers int) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := probeOnce(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// timeWaits counts the sockets in TIME_WAIT with the port of addr on either side.
func timeWaits(addr string) (int, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0, err
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	count := 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[3] == "06" && strings.Contains(line, fmt.Sprintf(":%04X ", number)) {
			count++
		}
	}
	return count, nil
}

// server is a server in another process.
type server struct {
	addr string
	cmd  *exec.Cmd
	in   io.Closer
}

func startServer() (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{cmd: exec.Command(self, "-serve")}
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.in = in
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fscanln(out, &s.addr); err != nil {
		s.stop()
		return nil, fmt.Errorf("the server did not say where it is: %w", err)
	}
	return s, nil
}

func (s *server) stop() {
	s.in.Close()
	// It has nothing to say about how it ended.
	_ = s.cmd.Wait()
}

// serveUntilEOF serves until its standard input ends.
func serveUntilEOF() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	})}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Close()
	}()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
