// Command ipvs measures two kube-proxies in ipvs mode, the stock one and ours, in a kernel
// that has IPVS: how long and how much CPU a start takes and one changed endpoint does, and
// how many processes are started meanwhile. It is to run alone in a guest of hack/vm, as
// root, and changes the network of the machine it runs on:
//
//	vm -engine qemu -file /bench/stock=…,/bench/ours=… ipvs -services 1000 -endpoints 5
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	b := &bench{}
	flag.IntVar(&b.services, "services", 1000, "Services")
	flag.IntVar(&b.endpoints, "endpoints", 5, "endpoints of each")
	flag.IntVar(&b.updates, "updates", 10, "changed endpoints, one after the other")
	flag.StringVar(&b.stock, "stock", "/bench/stock", "the stock kube-proxy; empty leaves it out")
	flag.StringVar(&b.ours, "ours", "/bench/ours", "our kube-proxy, which also cleans up after both")
	flag.DurationVar(&b.limit, "limit", 1000*time.Hour, "longest wait; the clock of a guest on a busy machine jumps by as much as an hour")
	flag.Parse()
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "ipvs:", err)
		os.Exit(1)
	}
}

type bench struct {
	services, endpoints, updates int
	stock, ours                  string
	limit                        time.Duration
	dir                          string
}

// result is what one kube-proxy takes.
type result struct {
	start, startCPU time.Duration
	// of one update, on average
	update, updateCPU time.Duration
	// processes and threads that the whole machine starts
	startForks, updateForks float64
	rss                     int64 // KiB, the peak
}

func (b *bench) run(ctx context.Context) error {
	if os.Getenv("NODEKIT_VM") == "" {
		return errors.New("this is no guest of hack/vm: its network would be changed")
	}
	var err error
	if b.dir, err = os.MkdirTemp("", "ipvs"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "eth0", "type", "dummy"},
		{"addr", "add", nodeAddr + "/24", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", "10.0.0.1"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	var results []result
	for _, p := range []struct{ name, program string }{{"stock", b.stock}, {"ours", b.ours}} {
		if p.program == "" {
			continue
		}
		r, err := b.measure(ctx, p.name, p.program)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		results = append(results, r)
		fmt.Printf("%-6s start %8.2fs CPU %8.2fs forks %6.0f | update %8.1fms CPU %8.1fms forks %5.1f | peak %d MiB\n", p.name,
			r.start.Seconds(), r.startCPU.Seconds(), r.startForks,
			float64(r.update.Microseconds())/1000, float64(r.updateCPU.Microseconds())/1000, r.updateForks, r.rss/1024)
	}
	if len(results) == 2 {
		s, o := results[0], results[1]
		fmt.Printf("ratio  start %8.3f  CPU %8.3f | update %8.3f CPU %8.3f\n",
			ratio(o.start, s.start), ratio(o.startCPU, s.startCPU), ratio(o.update, s.update), ratio(o.updateCPU, s.updateCPU))
	}
	return nil
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// measure starts a kube-proxy, waits until all is in force, and changes endpoints.
func (b *bench) measure(ctx context.Context, name, program string) (r result, err error) {
	objects := newAPI(b.services, b.endpoints)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	stop := objects.serve(l)
	defer stop()
	p, err := b.start(ctx, name, program, l.Addr().String())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.stop(ctx, b.ours)) }()
	if r.start, err = p.await(b.limit, func(t table) bool { return t.targets >= b.services*b.endpoints && t.servers >= b.services }); err != nil {
		return r, err
	}
	if err := p.quiet(b.limit); err != nil {
		return r, err
	}
	r.startCPU, r.startForks = p.spent()
	fmt.Printf("%-6s all in IPVS after %.2fs, at rest with CPU %.2fs forks %.0f\n", name, r.start.Seconds(), r.startCPU.Seconds(), r.startForks)
	for i := range b.updates {
		at := objects.change(i * 7 % b.services)
		took, err := p.await(b.limit, func(t table) bool { return t.has[at] })
		if err != nil {
			return r, fmt.Errorf("update %d: %w", i, err)
		}
		if err := p.quiet(b.limit); err != nil {
			return r, err
		}
		cpu, forks := p.spent()
		fmt.Printf("%-6s update %d in IPVS after %.1fms, at rest with CPU %.1fms forks %.0f\n", name, i+1,
			float64(took.Microseconds())/1000, float64(cpu.Microseconds())/1000, forks)
		r.update += took
		r.updateCPU += cpu
		r.updateForks += forks
	}
	n := time.Duration(b.updates)
	r.update, r.updateCPU, r.updateForks = r.update/n, r.updateCPU/n, r.updateForks/float64(b.updates)
	r.rss = p.peak()
	return r, nil
}

const configuration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
bindAddress: ` + nodeAddr + `
clusterCIDR: 10.244.0.0/16
clientConnection: {kubeconfig: %s, qps: 500, burst: 500, contentType: application/json}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
ipvs: {syncPeriod: 1h, minSyncPeriod: 0s}
hostnameOverride: node-a
healthzBindAddress: 127.0.0.1:10256
`

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://%s"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`

// files writes the configuration and returns its path.
func (b *bench) files(name, server string) (string, error) {
	kube, conf := filepath.Join(b.dir, name+".kubeconfig"), filepath.Join(b.dir, name+".yaml")
	return conf, errors.Join(
		os.WriteFile(kube, fmt.Appendf(nil, kubeconfig, server), 0o600),
		os.WriteFile(conf, fmt.Appendf(nil, configuration, kube), 0o600))
}
