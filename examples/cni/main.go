// Command cni attaches network namespaces to the network of a node and detaches
// them, with the CNI plugins that are installed.
//
//	cni add --conf-dir /etc/cni/net.d --bin-dir /opt/cni/bin --netns /run/netns/web --id web --ifname eth0
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/cni"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "cni:", err)
		os.Exit(1)
	}
}

// run is the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	invoker, err := cni.New(cni.Config{
		BinDirs: o.binDirs, StateDir: o.stateDir, Timeout: o.timeout,
		Log: slog.New(slog.NewTextHandler(stderr, nil)),
	})
	if err != nil {
		return err
	}
	p := &program{options: o, invoker: invoker, out: stdout}
	return p.commands()[o.command](ctx)
}
