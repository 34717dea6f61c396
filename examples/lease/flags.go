package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/lease"
)

// options are the flags.
type options struct {
	kubeconfig string
	lease      lease.Config
	node       bool
	level      program.LogLevel
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("lease", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the API server and the identity; required")
	f.StringVar(&o.lease.Name, "name", "", "`name` of the Lease; required")
	f.StringVar(&o.lease.Namespace, "namespace", lease.DefaultNamespace, "`namespace` of the Lease")
	f.StringVar(&o.lease.Holder, "holder", "", "`identity` that holds the Lease; default: its name")
	f.DurationVar(&o.lease.Duration, "duration", lease.DefaultDuration, "`time` that the Lease lasts, in whole seconds")
	f.DurationVar(&o.lease.Period, "period", 0, "`time` between renewals; default: a quarter of --duration")
	f.DurationVar(&o.lease.Timeout, "timeout", 0, "longest `time` of a request; default: a quarter of --duration, at most 10s")
	f.BoolVar(&o.node, "node", false, "the Lease belongs to the Node of its name, and waits for it")
	f.VarP(&o.level, "log-level", "v", "debug, info, warn or error")
	f.Usage = func() {
		fmt.Fprintf(usage, "lease keeps a Lease alive and shows each renewal, until it is interrupted.\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	case o.kubeconfig == "":
		return nil, errors.New("--kubeconfig is missing, want a file with the API server; see --help")
	case o.lease.Name == "":
		return nil, errors.New("--name is missing, want the name of the Lease; see --help")
	}
	return o, nil
}
