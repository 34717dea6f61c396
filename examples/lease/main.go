// Command lease keeps a Lease alive from the command line and shows each renewal.
//
//	lease --kubeconfig ~/.kube/config --namespace default --name backup
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nodekit-go/nodekit/examples/apiclient"
	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/lease"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lease:", err)
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
	config, err := apiclient.Config(o.kubeconfig, "lease")
	if err != nil {
		return err
	}
	client, link, err := apiclient.Own(config, o.lease.Duration)
	if err != nil {
		return err
	}
	defer link.Drop()
	cfg := o.lease
	cfg.Link = link
	if o.node {
		cfg.Node = ownerIn(client, cfg.Name)
	}
	p := printer{stdout}
	cfg.Hooks = lease.Hooks{Renewed: p.renewed, Failed: p.failed}
	if cfg.Log, err = program.Logger(stderr, o.level.Level, "text"); err != nil {
		return err
	}
	apiclient.LogTo(cfg.Log)
	keeper, err := lease.New(client.CoordinationV1().Leases(cfg.Namespace), cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%-24s  %-8s  %s\n", "TIME", "GAP", "WHAT")
	return keeper.Run(ctx)
}

// ownerIn looks the Node up that owns the Lease.
func ownerIn(client kubernetes.Interface, name string) func(context.Context) (types.UID, error) {
	return func(ctx context.Context) (types.UID, error) {
		n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return n.UID, nil
	}
}
