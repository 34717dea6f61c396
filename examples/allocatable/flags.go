package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// options are the flags.
type options struct {
	config, configDir    string
	capacity             corev1.ResourceList // nil: that of the machine
	machineRoot, rootDir string
	output               string
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	var list string
	f := pflag.NewFlagSet("allocatable", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	f.StringVar(&o.config, "config", "", "`file` with a KubeletConfiguration; default: nothing is set")
	f.StringVar(&o.configDir, "config-dir", "", "`directory` with drop-ins, *.conf, for the configuration")
	f.StringVar(&list, "capacity", "", "compute for this capacity, `like` cpu=4,memory=8141816Ki; default: that of the machine")
	f.StringVar(&o.machineRoot, "machine-root", "/", "`directory` below which the machine's /proc, /sys and /etc are")
	f.StringVar(&o.rootDir, "root-dir", "/var/lib/kubelet", "`directory` of the kubelet, whose filesystem is the ephemeral storage; empty: none")
	f.StringVarP(&o.output, "output", "o", "table", "`format`: table or json")
	f.Usage = func() {
		fmt.Fprintf(usage, "allocatable prints what a node offers to pods, and how that comes about.\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	}
	if o.output != "table" && o.output != "json" {
		return nil, fmt.Errorf("--output is %q: it must be table or json", o.output)
	}
	if list == "" {
		return o, nil
	}
	if f.Changed("machine-root") || f.Changed("root-dir") {
		return nil, fmt.Errorf("--capacity says what the machine has; it goes with neither --machine-root nor --root-dir")
	}
	var err error
	o.capacity, err = parseList(list)
	return o, err
}

// maxCPUs bounds the CPUs of a machine that is only described.
const maxCPUs = 65536

// parseList reads "cpu=4,memory=8Gi".
func parseList(s string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for pair := range strings.SplitSeq(s, ",") {
		name, amount, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--capacity has %q: it must be a resource and its amount, like memory=8Gi", pair)
		}
		q, err := resource.ParseQuantity(amount)
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("--capacity has %q: %q must be a quantity like 4, 500m or 8Gi", pair, amount)
		}
		if _, twice := list[corev1.ResourceName(name)]; twice {
			return nil, fmt.Errorf("--capacity has %s twice", name)
		}
		list[corev1.ResourceName(name)] = q
	}
	if list.Cpu().CmpInt64(maxCPUs) > 0 {
		return nil, fmt.Errorf("--capacity has %s CPUs: at most %d can be", list.Cpu(), maxCPUs)
	}
	return list, nil
}
