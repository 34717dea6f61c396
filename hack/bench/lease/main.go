// Command lease compares package lease with the Lease controller of
// k8s.io/component-helpers, which the kubelet uses: 1,000 Leases kept by one process,
// on a real kube-apiserver. Each contender is a process of its own, in turns, in the
// network namespace of the control plane that package test/cluster starts. It needs
// root and the tools of test/tools.
//
//	go run .
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/nodekit-go/nodekit/test/cluster"
)

// options are the flags.
type options struct {
	contender, kubeconfig string
	repository            string
	load                  load
	rounds                int
}

// load is how much is kept, and how it is measured.
type load struct {
	leases           int
	duration, length time.Duration
}

func main() {
	o := options{}
	flag.StringVar(&o.contender, "contender", "", "run one (used by the program itself)")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "of the API server (used by the program itself)")
	flag.StringVar(&o.repository, "repository", "../../..", "`root` of the repository, whose tools are used")
	flag.IntVar(&o.load.leases, "leases", 1000, "Leases in one process")
	flag.DurationVar(&o.load.duration, "duration", 8*time.Second, "of each Lease; it is renewed every quarter of it")
	flag.DurationVar(&o.load.length, "length", 20*time.Second, "of a measurement")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds, of which the medians count")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	run := compare
	if o.contender != "" {
		run = contend
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "lease:", err)
		os.Exit(1)
	}
}

// contend is the process of one contender.
func contend(ctx context.Context, o options) error {
	m, err := measure(ctx, o.contender, o.kubeconfig, o.load)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// compare starts a control plane and measures all contenders on it.
func compare(ctx context.Context, o options) (err error) {
	if err := os.Chdir(o.repository); err != nil {
		return err
	}
	logs, err := os.MkdirTemp("", "nodekit-bench-lease-")
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{Name: "bench", Logs: logs, NoWait: true})
	if err != nil {
		return fmt.Errorf("%w (logs: %s)", err, logs)
	}
	defer func() {
		if stopErr := c.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
		if err == nil {
			err = os.RemoveAll(logs)
		}
	}()
	results := map[string][]measurement{}
	for range o.rounds {
		for _, name := range contenders() {
			m, err := inNamespace(ctx, c, name, o.load)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			results[name] = append(results[name], m)
		}
	}
	return table(os.Stdout, results)
}

// inNamespace runs one contender where it reaches the API server.
func inNamespace(ctx context.Context, c *cluster.Cluster, name string, l load) (measurement, error) {
	self, err := os.Executable()
	if err != nil {
		return measurement{}, err
	}
	cmd := c.Plane().Command(ctx, self, "-contender", name, "-kubeconfig", c.Kubeconfig(), "-leases", strconv.Itoa(l.leases),
		"-duration", l.duration.String(), "-length", l.length.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return measurement{}, withOutput(err, out)
	}
	var m measurement
	return m, json.Unmarshal(out, &m)
}

func withOutput(err error, out []byte) error {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // of Output, never wrapped
		return fmt.Errorf("%w: %s%s", err, out, exit.Stderr)
	}
	return err
}

// table prints the medians, and ratios to the first contender.
func table(w io.Writer, results map[string][]measurement) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTENDER\tRENEWALS/S\tLONGEST GAP\tCPU µs/RENEWAL\tRATIO\tkB/LEASE\tRATIO\tRSS MiB")
	var baseCPU, baseMemory float64
	for i, name := range contenders() {
		list := results[name]
		cpu, memory := median(list, measurement.cpuPerRenewal), median(list, measurement.memoryPerLease)
		if i == 0 {
			baseCPU, baseMemory = cpu, memory
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.1f s\t%.0f\t%.2f\t%.1f\t%.2f\t%.0f\n", name,
			median(list, measurement.rate), median(list, func(m measurement) float64 { return m.Gap.Seconds() }),
			cpu/1000, cpu/baseCPU, memory/1000, memory/baseMemory,
			median(list, func(m measurement) float64 { return float64(m.RSS) / (1 << 20) }))
	}
	return t.Flush()
}

func median(list []measurement, value func(measurement) float64) float64 {
	values := make([]float64, 0, len(list))
	for _, m := range list {
		values = append(values, value(m))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
