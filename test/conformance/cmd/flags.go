package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/conformance/run"
)

// options are the flags.
type options struct {
	set             conformance.Set
	kit             conformance.Kit
	focus, skip     string
	dir, treeDir    string
	procs           int
	fresh, last     bool
	resume          bool
	record, ratchet bool
	output, page    string
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	name, kubelet, proxy := "", "", ""
	f := pflag.NewFlagSet("conformance", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	f.StringVar(&name, "set", "node-conformance", "`name` of a set: "+setNames())
	f.StringVar(&o.focus, "focus", "", "regular `expression`: only these specs of the set")
	f.StringVar(&o.skip, "skip", "", "regular `expression`: not these specs of the set")
	f.StringVar(&kubelet, "kubelet", "stock", "ours or stock")
	f.StringVar(&proxy, "proxy", "stock", "ours or stock")
	f.StringVar(&o.kit.Backend, "backend", "nftables", "kube-proxy's `mode`: nftables or iptables")
	f.StringVar(&o.kit.Runtime, "runtime", "containerd", "container `runtime`: containerd, containerd2, or the path of the socket of one that you run")
	f.IntVar(&o.procs, "procs", 6, "how many specs run at the same time")
	f.BoolVar(&o.fresh, "fresh", false, "begin anew instead of going on with a run that was killed")
	f.BoolVar(&o.resume, "resume", false, "go on with a run that was killed, with the programs that it began with")
	f.BoolVar(&o.last, "last", false, "run nothing; take the results of the last run")
	f.StringVar(&o.dir, "dir", "_out/conformance", "`folder` for results, reports and logs")
	f.StringVar(&o.treeDir, "tree", "test/conformance", "`folder` with recorded results and ratchets")
	f.BoolVar(&o.record, "record", false, "record a whole run in the tree, which keeps the last three of each kit")
	f.BoolVar(&o.ratchet, "ratchet", false, "add what newly passes to the ratchet")
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
	f.StringVar(&o.page, "page", "", "only write the page of all recorded results to this `file`")
	f.Usage = func() {
		fmt.Fprintf(usage, "conformance runs a set of Kubernetes' end-to-end specs. It needs root.\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	}
	if o.output != "table" && o.output != "json" {
		return nil, fmt.Errorf("--output=%s: want table or json", o.output)
	}
	if o.fresh && o.resume {
		return nil, errors.New("--fresh and --resume: a run begins anew or goes on")
	}
	return o, o.choose(name, kubelet, proxy)
}

// choose checks the set and the kit.
func (o *options) choose(name, kubelet, proxy string) (err error) {
	if o.set, err = conformance.Lookup(name); err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	if o.kit.Kubelet, err = conformance.ParseWhose(kubelet); err != nil {
		return fmt.Errorf("--kubelet=%s: %w", kubelet, err)
	}
	if o.kit.Proxy, err = conformance.ParseWhose(proxy); err != nil {
		return fmt.Errorf("--proxy=%s: %w", proxy, err)
	}
	if b := o.kit.Backend; b != "nftables" && b != "iptables" {
		return fmt.Errorf("--backend=%s: want nftables or iptables", b)
	}
	if _, err = cluster.ParseRuntime(o.kit.Runtime); err == nil {
		err = o.kit.Check(o.set)
	}
	if err == nil && o.kit.Foreign() && (o.record || o.ratchet) {
		err = errors.New("what a runtime of somebody else passes is neither recorded nor put into the ratchet")
	}
	if err != nil {
		return fmt.Errorf("--runtime=%s: %w", o.kit.Runtime, err)
	}
	return nil
}

func setNames() string {
	var names []string
	for _, s := range conformance.Sets() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

func (o *options) tree() run.Tree { return run.Tree(o.treeDir) }

func (o *options) config() run.Config {
	return run.Config{
		Set: o.set, Kit: o.kit, Focus: o.focus, Skip: o.skip, Dir: o.dir, Tree: o.tree(), Procs: o.procs, Fresh: o.fresh, Resume: o.resume,
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	}
}
