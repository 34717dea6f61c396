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
	"syscall"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/apiclient"
	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/volume"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if code, ok := errors.AsType[exitError](err); ok {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

// run is the program; it returns when a signal or an error ends it.
func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "run" {
		return runOnce(args[1:], stdout, stderr)
	}
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.version {
		_, err := fmt.Fprintln(stdout, "Kubernetes", program.Version())
		return err
	}
	log, err := program.Logger(stderr, o.level.Level, o.logFormat)
	if err != nil {
		return err
	}
	apiclient.LogTo(log)
	cfg, err := o.load(log)
	if err != nil {
		return err
	}
	name, err := o.nodeName()
	if err != nil {
		return err
	}
	c, err := o.apply(cfg)
	if err != nil {
		return err
	}
	store, err := o.store()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	nc := c.join(node.Config{Kubelet: cfg, Name: name, Root: o.root, TakeOver: o.takeOver, CredentialPlugins: o.plugins, PodStore: store, Limits: o.limits(), Log: log})
	if o.dryRun != "" {
		return preview(ctx, nc, o.dryRun, stdout, stderr)
	}
	n, err := node.New(nc)
	if err != nil {
		return err
	}
	if o.kubeconfig != "" {
		if err := (volume.Mounter{}).Share(ctx, o.root); err != nil {
			log.Warn("storage drivers and the node may not see each other's mounts", "err", err)
		}
	}
	log.Info("kubelet", "version", program.Version(), "pid", os.Getpid())
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return n.Run(ctx)
}
