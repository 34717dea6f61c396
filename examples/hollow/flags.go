package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// requestTimeout is the longest that a request may take, as in a kubelet.
const requestTimeout = 10 * time.Second

// options are the flags.
type options struct {
	kubeconfig, prefix, contentType string
	nodes, connections              int
	ramp, leaseDuration             time.Duration
	resources                       corev1.ResourceList
	registration                    nodestatus.Registration
	clean                           bool
	level                           program.LogLevel
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("hollow", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the API server and an identity that may write all Nodes and Leases; required")
	f.IntVar(&o.nodes, "nodes", 100, "`number` of nodes")
	f.StringVar(&o.prefix, "prefix", "hollow-", "start of the nodes' `names`; a number follows")
	f.DurationVar(&o.ramp, "ramp", 10*time.Second, "`time` over which the nodes start")
	f.DurationVar(&o.leaseDuration, "lease-duration", 40*time.Second, "`time` that each Lease lasts")
	f.IntVar(&o.connections, "connections", 10, "`number` of connections that the nodes share")
	f.StringVar(&o.contentType, "content-type", "application/vnd.kubernetes.protobuf", "`type` of the requests' bodies")
	labels := f.String("labels", "nodekit.dev/hollow=true", "`key=value,…` labels of the nodes")
	taints := f.String("taints", "nodekit.dev/hollow=true:NoSchedule", "`key=value:effect,…` taints of the nodes, which keep pods away")
	sizes := map[corev1.ResourceName]*string{
		corev1.ResourceCPU:              f.String("cpu", "4", "`CPUs` of each node"),
		corev1.ResourceMemory:           f.String("memory", "16Gi", "`memory` of each node"),
		corev1.ResourceEphemeralStorage: f.String("storage", "100Gi", "`ephemeral storage` of each node"),
		corev1.ResourcePods:             f.String("pods", "110", "`number` of pods for which each node has room"),
	}
	f.BoolVar(&o.clean, "clean", false, "delete the nodes at the end")
	f.VarP(&o.level, "log-level", "v", "debug, info, warn or error")
	f.Usage = func() {
		fmt.Fprintf(usage, "hollow registers nodes that are not there, and keeps their Leases and statuses until it is interrupted.\n\nFlags:\n%s", f.FlagUsages())
	}
	o.level.Set("warn") //nolint:errcheck // it is a level
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	}
	return o, o.check(*labels, *taints, sizes)
}

// check reads what the flags say and names what is wrong.
func (o *options) check(labels, taints string, sizes map[corev1.ResourceName]*string) error {
	var errs []error
	fail := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if o.kubeconfig == "" {
		errs = append(errs, errors.New("--kubeconfig is missing, want a file with the API server; see --help"))
	}
	if o.nodes < 1 || o.connections < 1 {
		errs = append(errs, fmt.Errorf("--nodes is %d and --connections is %d, want at least 1", o.nodes, o.connections))
	}
	var err error
	o.registration.Labels, err = nodestatus.ParseLabels(labels)
	fail("labels", err)
	o.registration.Taints, err = nodestatus.ParseTaints(taints)
	fail("taints", err)
	o.resources = corev1.ResourceList{}
	for name, size := range sizes {
		q, err := resource.ParseQuantity(*size)
		fail(string(name), err)
		o.resources[name] = q
	}
	return errors.Join(errs...)
}
