// Command proxy compares nodekit's kube-proxy with Kubernetes' own, in the same mode
// both, against a real kube-apiserver with generated Services, on the same kernel and
// through the same namespaces, one after the other.
//
//	go run ./proxy -sizes 1000x10,10000x2
//	go run ./proxy -mode iptables -variant legacy -sizes 1000x10,5000x2
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/proxy:", err)
		os.Exit(1)
	}
}

// size is a number of Services and of endpoints of each.
type size struct{ services, endpoints int }

func (s size) String() string { return fmt.Sprintf("%d x %d", s.services, s.endpoints) }

func parseSizes(s string) ([]size, error) {
	var out []size
	for part := range strings.SplitSeq(s, ",") {
		var z size
		if _, err := fmt.Sscanf(part, "%dx%d", &z.services, &z.endpoints); err != nil || z.services < 1 || z.endpoints < 1 {
			return nil, fmt.Errorf("size %q is not like 1000x10", part)
		}
		out = append(out, z)
	}
	return out, nil
}

func run() error {
	sizes := flag.String("sizes", "1000x10,5000x10,10000x2", "Services x endpoints each, separated by commas")
	updates := flag.Int("updates", 50, "updates of each kind")
	stock := flag.Bool("stock", true, "measure the stock kube-proxy, too")
	root := flag.String("root", "../..", "root of the repository")
	mode := flag.String("mode", "nftables", "nftables or iptables")
	variant := flag.String("variant", "nft", "of iptables: nft or legacy")
	profiles := flag.String("profiles", "", "write CPU profiles of nodekit's start and updates to this `directory`")
	flag.Parse()
	all, err := parseSizes(*sizes)
	if err != nil {
		return err
	}
	p := programming{mode: *mode, variant: *variant}
	if err := p.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	tools, err := findTools(ctx, *root)
	if err != nil {
		return err
	}
	for _, z := range all {
		contenders := []contender{{name: "nodekit", binary: tools.nodekit, profiles: *profiles}}
		if *stock {
			contenders = append(contenders, contender{name: "kube-proxy", binary: tools.kubeProxy})
		}
		if err := compare(ctx, tools, z, p, contenders, *updates); err != nil {
			return fmt.Errorf("%s: %w", z, err)
		}
	}
	return nil
}

// compare measures one size and prints its table.
func compare(ctx context.Context, t tools, z size, p programming, contenders []contender, updates int) error {
	dir, err := os.MkdirTemp("", "bench-proxy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	net, err := newNetwork(ctx)
	if err != nil {
		return err
	}
	defer net.remove()
	if err := p.prepare(ctx, net, dir); err != nil {
		return err
	}
	c, err := startCluster(ctx, t, net, dir, z, p)
	if err != nil {
		return err
	}
	defer c.stop()
	fmt.Printf("\n%s, %s: API server ready\n", z, p)
	var results []result
	for _, who := range contenders {
		r, err := measure(ctx, c, who, updates)
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		results = append(results, r)
	}
	printTable(os.Stdout, z, results)
	return nil
}
