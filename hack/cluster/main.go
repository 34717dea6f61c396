// Command cluster runs a Kubernetes cluster on this machine (package test/cluster)
// until it is interrupted, or leaves it running. Run it as root from the repository's
// root; "make cluster" does.
//
//	go run ./hack/cluster -nodes 2             until Ctrl-C
//	go run ./hack/cluster -nodes 2 -keep       and leave it running
//	go run ./hack/cluster -clean               remove all clusters that were left
//	go run ./hack/cluster -clean cluster-3f1c  remove this one
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/images"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// options are the flags.
type options struct {
	config       cluster.Config
	clean, keep  bool
	names        []string // What to clean.
	suites, wait bool
	dns          bool
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.clean {
		err = clean(ctx, o.names)
	} else {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("cluster", flag.ExitOnError)
	f.BoolVar(&o.clean, "clean", false, "remove the clusters and test nodes that were left, or those named as arguments, and end")
	f.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	f.BoolVar(&o.suites, "suites", false, "give the nodes the images of the end-to-end suites, too")
	f.BoolVar(&o.wait, "wait", true, "wait until the nodes are ready and CoreDNS answers")
	f.BoolVar(&o.dns, "dns", true, "run CoreDNS; without it for nodes that cannot run it")
	f.StringVar(&o.config.Name, "name", "cluster", "start of the cluster's `name`")
	f.StringVar(&o.config.Logs, "logs", "", "`folder` for the logs; default: a new one in _out")
	f.IntVar(&o.config.Nodes, "nodes", 2, "`number` of nodes")
	kubelet := f.String("kubelet", "stock", "the nodes' kubelet: stock, ours, none or a `path`")
	proxy := f.String("proxy", "stock", "the nodes' kube-proxy: stock, ours, none or a `path`")
	f.StringVar(&o.config.Node.Backend, "backend", "nftables", "kube-proxy's mode")
	runtime := f.String("runtime", "containerd", "the nodes' runtime: containerd (the distribution's), containerd2 (a current one), or the `path` of the socket of a runtime that runs, for one node")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.names = f.Args(); len(o.names) > 0 && !o.clean {
		return nil, fmt.Errorf("unexpected argument %q; see -help", o.names[0])
	}
	var err error
	if o.config.Node.Kubelet, err = cluster.ParseSource(*kubelet); err != nil {
		return nil, fmt.Errorf("-kubelet %w", err)
	}
	if o.config.Node.Proxy, err = cluster.ParseSource(*proxy); err != nil {
		return nil, fmt.Errorf("-proxy %w", err)
	}
	if o.config.Node.Runtime, err = cluster.ParseRuntime(*runtime); err != nil {
		return nil, fmt.Errorf("-runtime %w", err)
	}
	o.config.NoWait, o.config.NoDNS = !o.wait, !o.dns
	if o.config.Logs == "" {
		o.config.Logs = filepath.Join("_out", fmt.Sprintf("cluster-logs-%d", os.Getpid()))
	}
	return o, nil
}

func clean(ctx context.Context, names []string) error {
	removed, err := testnode.Clean(ctx, testnode.KeptToo, names...)
	for _, name := range removed {
		fmt.Println("removed", name)
	}
	if err == nil && len(removed) == 0 {
		fmt.Println("nothing to remove")
	}
	return err
}

func run(ctx context.Context, o *options) error {
	began := time.Now()
	o.config.Progress = func(line string) {
		fmt.Printf("%5.1f s  %s\n", time.Since(began).Seconds(), line)
	}
	if o.suites {
		archive, err := images.Suites(ctx, images.Config{Progress: o.config.Progress})
		if err != nil {
			return err
		}
		o.config.Images = append(o.config.Images, archive)
	}
	c, err := cluster.Start(ctx, o.config)
	if err != nil {
		return err
	}
	explain(c, o.config.Logs)
	if o.keep {
		fmt.Println("\nIt stays. Remove it by: make cluster-clean NAME=" + c.Name())
		return c.Keep()
	}
	fmt.Println("\nCtrl-C ends it.")
	<-ctx.Done()
	fmt.Println()
	o.config.Progress("stopping")
	if err := c.Stop(ctx); err != nil {
		return err
	}
	o.config.Progress("stopped, nothing is left")
	return nil
}

// explain tells how to use the cluster.
func explain(c *cluster.Cluster, logs string) {
	fmt.Printf("\nkubeconfig   %s\n", c.Kubeconfig())
	fmt.Printf("enter        nsenter --net=%s\n", c.Plane().Namespace())
	fmt.Printf("  then       kubectl --kubeconfig %s get nodes\n", c.Kubeconfig())
	for _, n := range c.Nodes() {
		line := "nsenter --net=" + n.Namespace()
		if n.MountNamespace() != "" {
			line += " --mount=" + n.MountNamespace()
		}
		fmt.Printf("%-12s %s\n", n.NodeName(), line)
	}
	fmt.Printf("logs         %s\n", logs)
}
