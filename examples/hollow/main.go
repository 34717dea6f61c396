// Command hollow registers many nodes that are not there, with Leases and statuses,
// from one process: a load for the control plane of a test cluster.
//
//	hollow --kubeconfig admin.kubeconfig --nodes 1000
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/nodekit-go/nodekit/examples/apiclient"
	"github.com/nodekit-go/nodekit/examples/internal/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "hollow:", err)
		os.Exit(1)
	}
}

// run is the program; it returns when ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log, err := program.Logger(stderr, o.level.Level, "text")
	if err != nil {
		return err
	}
	apiclient.LogTo(log)
	clients, err := o.clients()
	if err != nil {
		return err
	}
	t := &tally{}
	nodes := make([]*hollow, o.nodes)
	for i := range nodes {
		if nodes[i], err = newHollow(fmt.Sprintf("%s%d", o.prefix, i), clients[i%len(clients)], o, t, log); err != nil {
			return err
		}
	}
	g, runCtx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.show(runCtx, stdout, o.nodes) })
	for i, n := range nodes {
		g.Go(func() error {
			if !pause(runCtx, time.Duration(i)*o.ramp/time.Duration(o.nodes)) {
				return nil
			}
			return n.run(runCtx)
		})
	}
	if err := g.Wait(); err != nil || !o.clean {
		return err
	}
	return clean(context.WithoutCancel(ctx), clients, nodes, stdout)
}

// clients returns the clients over which the nodes are spread.
func (o *options) clients() ([]kubernetes.Interface, error) {
	config, err := apiclient.Config(o.kubeconfig, "hollow")
	if err != nil {
		return nil, err
	}
	config.ContentType = o.contentType
	clients := make([]kubernetes.Interface, o.connections)
	for i := range clients {
		if clients[i], _, err = apiclient.Own(config, requestTimeout); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// pause waits; it is false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
