// Command soak lets a node live for hours and tells what it leaks (package test/soak). Run
// it as root from the repository's root; "make soak" does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/soak"
)

// results is where the outcomes are that docs/conformance.md tells of.
const results = "test/conformance/results/soak"

// options are the flags.
type options struct {
	config soak.Config
	output string
	record bool
	again  bool // Judge what is in the folder.
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

func parse(args []string, complaints io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(complaints)
	f.DurationVar(&o.config.For, "for", 2*time.Hour, "how `long` there is churn")
	f.StringVar(&o.config.Backend, "backend", "nftables", "kube-proxy's `mode`: nftables or iptables")
	f.Uint64Var(&o.config.Seed, "seed", 1, "`number` that makes what is random come the same again")
	f.StringVar(&o.config.Dir, "dir", "", "`folder` for samples and logs; default: one in _out/soak")
	f.StringVar(&o.output, "o", "table", "`format` of the outcome: table or json")
	f.BoolVar(&o.record, "record", false, "put the outcome of a whole run under "+results)
	f.BoolVar(&o.again, "again", false, "judge the soak whose samples are in the folder, instead of a new one")
	kubelet := f.String("kubelet", "ours", "the kubelet: stock, ours or a `path`")
	proxy := f.String("proxy", "ours", "kube-proxy: stock, ours or a `path`")
	runtime := f.String("runtime", "containerd", "containerd (the distribution's), containerd2 (a current one), or the `path` of the socket of a runtime that runs")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.config.Kubelet, err = cluster.ParseSource(*kubelet); err != nil || o.config.Kubelet == cluster.None {
		return nil, fmt.Errorf("-kubelet %q: must be stock, ours or the path of a program", *kubelet)
	}
	if o.config.Proxy, err = cluster.ParseSource(*proxy); err != nil || o.config.Proxy == cluster.None {
		return nil, fmt.Errorf("-proxy %q: must be stock, ours or the path of a program", *proxy)
	}
	if o.config.Runtime, err = cluster.ParseRuntime(*runtime); err != nil {
		return nil, fmt.Errorf("-runtime %w", err)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	}
	if o.config.Dir == "" {
		o.config.Dir = filepath.Join("_out", "soak", o.name())
	}
	return o, o.check()
}

// check returns an error that names the first flag whose value cannot be.
func (o *options) check() error {
	switch {
	case o.config.Backend != "nftables" && o.config.Backend != "iptables":
		return fmt.Errorf("-backend %q: must be nftables or iptables", o.config.Backend)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %q: must be table or json", o.output)
	case o.record && o.kit().Foreign():
		return errors.New("-record: nothing is recorded of somebody else's runtime")
	case o.config.For < time.Minute:
		return fmt.Errorf("-for %s: must be a minute at least", o.config.For)
	}
	return nil
}

// kit is what runs, as test/conformance calls it.
func (o *options) kit() conformance.Kit {
	c := &o.config
	return conformance.Kit{
		Kubelet: conformance.Whose(c.Kubelet.String()), Proxy: conformance.Whose(c.Proxy.String()),
		Backend: c.Backend, Runtime: string(c.Runtime),
	}
}

// name is the kit in file names.
func (o *options) name() string {
	return strings.ReplaceAll(o.kit().Name(conformance.Set{Part: conformance.Network}), "/", "-")
}

// run runs the soak, or judges one again, and prints its outcome. It reports whether all
// facts hold.
func run(ctx context.Context, o *options, w io.Writer) (bool, error) {
	report, err := o.report(ctx)
	if report == nil {
		return false, err
	}
	write := report.WriteTable
	if o.output == "json" {
		write = report.WriteJSON
	}
	err = errors.Join(err, write(w), save(report, filepath.Join(o.config.Dir, outcome)))
	if err == nil && o.record {
		err = save(report, filepath.Join(results, o.name()+".json"))
	}
	return report.Passed(), err
}

// outcome is the file of the outcome, in the folder of a soak.
const outcome = "report.json"

func (o *options) report(ctx context.Context) (*soak.Report, error) {
	if o.again {
		return judgeAgain(o.config.Dir)
	}
	if err := cluster.Prepare(ctx, os.Stderr); err != nil {
		return nil, err
	}
	o.config.Progress = func(line string) { fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), line) }
	return soak.Run(ctx, o.config)
}

// judgeAgain judges the soak in a folder.
func judgeAgain(dir string) (*soak.Report, error) {
	data, err := os.ReadFile(filepath.Join(dir, outcome))
	if err != nil {
		return nil, fmt.Errorf("judge again: %w", err)
	}
	var report soak.Report
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("judge again: read %s: %w", outcome, err)
	}
	lines, err := os.Open(filepath.Join(dir, soak.SamplesFile))
	if err != nil {
		return nil, fmt.Errorf("judge again: %w", err)
	}
	defer lines.Close()
	var samples []soak.Sample
	for decoder := json.NewDecoder(lines); decoder.More(); {
		var s soak.Sample
		if err := decoder.Decode(&s); err != nil {
			return nil, fmt.Errorf("judge again: read sample %d: %w", len(samples)+1, err)
		}
		samples = append(samples, s)
	}
	return soak.Again(&report, samples), nil
}

// save writes a report to a file.
func save(report *soak.Report, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep the outcome: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keep the outcome: %w", err)
	}
	return errors.Join(report.WriteJSON(file), file.Close())
}
