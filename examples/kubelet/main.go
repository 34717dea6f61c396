// Command kubelet runs the static pods of a manifest directory on a container
// runtime: a kubelet wired from the packages of nodekit. With the identity of a node in
// a cluster it registers the Node and keeps its status and its Lease.
//
//	kubelet --config /etc/kubernetes/kubelet.yaml
//	kubelet --config /etc/kubernetes/kubelet.yaml --kubeconfig /etc/kubernetes/kubelet.conf
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/apiclient"
	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/podworker/volume"
)

func main() {
	collectOften()
	os.Exit(exit(run(os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// collectOften has garbage collected when the heap has grown by seven tenths: a kubelet
// makes most of its garbage when many pods start, and keeps the peak for good. GOGC wins.
func collectOften() {
	const percent = 70
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// run is the program; it returns when a signal or an error ends it.
func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "run":
			return runOnce(args[1:], stdout, stderr)
		case "doctor":
			return runDoctor(runningArgs("/proc"), args[1:], stdout, stderr)
		case "completion":
			return runCompletion(args[1:], stdout, stderr)
		}
	}
	o, err := parse(args, stderr)
	if err != nil {
		return help(err)
	}
	switch {
	case o.version:
		_, err := fmt.Fprintln(stdout, "Kubernetes", program.Version())
		return err
	case o.printDefaults:
		return printDefaults(stdout)
	case o.validate:
		return o.validateConfig(stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return o.run(ctx, stdout, stderr)
}

// help makes of an error of the command line what the program says of it: nothing where
// help was asked for.
func help(err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	return usageError{err}
}

// run runs the kubelet until ctx ends.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	cfg, problems, err := o.load()
	if err != nil {
		return err
	}
	log, err := o.logger(stderr, cfg)
	if err != nil {
		return err
	}
	apiclient.LogTo(log)
	logConfiguration(log, cfg)
	o.warn(log, problems)
	nc, err := o.node(cfg, log)
	if err != nil {
		return err
	}
	if o.dryRun != "" {
		return preview(ctx, nc, o.dryRun, stdout, stderr)
	}
	n, err := surround(nc)
	if err != nil {
		return err
	}
	if o.kubeconfig != "" {
		if err := (volume.Mounter{}).Share(ctx, nc.Root); err != nil {
			log.Warn("storage drivers and the node may not see each other's mounts", "err", err)
		}
	}
	log.Info("kubelet", "version", program.Version(), "pid", os.Getpid())
	return n.Run(ctx)
}
