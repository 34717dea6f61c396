// Command cni compares package cni with containerd's go-cni: pairs of ADD and DEL
// per second with the same stub plugins, in alternating rounds of one run.
//
//	go run . -plugins 3 -parallel 1,8
//
// Ours makes a record of each attachment durable before the first plugin runs and
// again after the last; go-cni writes its cache after the last, without fsync. The
// state of both is in -state.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	gocni "github.com/containerd/go-cni"
	"github.com/containernetworking/cni/libcni"

	"github.com/nodekit-go/nodekit/cni"
)

// stub is the cheapest plugin that keeps to the protocol.
const stub = `#!/bin/sh
while read -r line; do config=$config$line; done
[ "$CNI_COMMAND" = ADD ] && echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/x"}],"ips":[{"address":"10.88.0.2/16","gateway":"10.88.0.1","interface":0}],"routes":[{"dst":"0.0.0.0/0"}]}'
exit 0
`

func main() {
	plugins := flag.Int("plugins", 3, "plugins in the chain")
	parallel := flag.String("parallel", "1,8", "pods at a time, a list")
	rounds := flag.Int("rounds", 21, "rounds of each")
	length := flag.Duration("length", 500*time.Millisecond, "length of a round")
	state := flag.String("state", "", "directory for the state of both; default: a new one in the directory of temporary files")
	flag.Parse()
	if err := run(*plugins, *parallel, *rounds, *length, *state); err != nil {
		fmt.Fprintln(os.Stderr, "cni:", err)
		os.Exit(1)
	}
}

// pair attaches a container and detaches it.
type pair func(ctx context.Context, id string) error

func run(plugins int, parallel string, rounds int, length time.Duration, state string) error {
	dir, err := os.MkdirTemp(state, "bench-cni-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	conf, err := prepare(dir, plugins)
	if err != nil {
		return err
	}
	ours, err := nodekit(dir, conf)
	if err != nil {
		return err
	}
	theirs, err := goCNI(dir, conf)
	if err != nil {
		return err
	}
	fmt.Printf("%d plugins, state in %s, median of %d rounds of %s\n\n", plugins, filepath.Dir(dir), rounds, length)
	fmt.Println("| pods at a time | nodekit pairs/s | go-cni pairs/s | ratio | nodekit CPU/pair | go-cni CPU/pair | ratio |\n|---|---|---|---|---|---|---|")
	for field := range strings.SplitSeq(parallel, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("-parallel: %w", err)
		}
		rows, err := compare(ours, theirs, n, load{rounds, length})
		if err != nil {
			return err
		}
		fmt.Println(rows)
	}
	return nil
}

// load is how much to measure.
type load struct {
	rounds int
	length time.Duration
}

// rate is the outcome of one round: pairs per second, and CPU milliseconds of this
// process and its plugins for each.
type rate struct{ pairs, cpu float64 }

// compare measures both in turns and returns a row of the table. The ratios are
// medians of the rounds' own, because the machine may not be quiet.
func compare(ours, theirs pair, n int, l load) (string, error) {
	var a, b, pairs, cpu []float64
	var ca, cb []float64
	for range l.rounds {
		x, err := measure(ours, n, l.length)
		if err != nil {
			return "", err
		}
		y, err := measure(theirs, n, l.length)
		if err != nil {
			return "", err
		}
		a, b, pairs = append(a, x.pairs), append(b, y.pairs), append(pairs, x.pairs/y.pairs)
		ca, cb, cpu = append(ca, x.cpu), append(cb, y.cpu), append(cpu, x.cpu/y.cpu)
	}
	return fmt.Sprintf("| %d | %.1f | %.1f | %.2f | %.2f ms | %.2f ms | %.2f |",
		n, median(a), median(b), median(pairs), median(ca), median(cb), median(cpu)), nil
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// prepare writes the plugins and returns the configuration.
func prepare(dir string, plugins int) ([]byte, error) {
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return nil, err
	}
	var list []string
	for i := range plugins {
		name := fmt.Sprintf("stub-%d", i)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(stub), 0o755); err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf(`{"type":%q,"capabilities":{"portMappings":true}}`, name))
	}
	return fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"bench","plugins":[%s]}`, strings.Join(list, ",")), nil
}

func nodekit(dir string, conf []byte) (pair, error) {
	network, err := cni.Parse(conf)
	if err != nil {
		return nil, err
	}
	invoker, err := cni.New(cni.Config{BinDirs: []string{filepath.Join(dir, "bin")}, StateDir: filepath.Join(dir, "nodekit")})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, id string) error {
		pod := cni.Attachment{
			ContainerID: id, IfName: "eth0", NetNS: "/run/netns/" + id, Args: cni.PodArgs("default", "web", "1", id),
			Capabilities: cni.Capabilities{PortMappings: []cni.PortMapping{{HostPort: 8080, ContainerPort: 80}}},
		}
		if _, err := invoker.Add(ctx, network, pod); err != nil {
			return err
		}
		return invoker.Del(ctx, network, pod)
	}, nil
}

func goCNI(dir string, conf []byte) (pair, error) {
	libcni.CacheDir = filepath.Join(dir, "go-cni")
	l, err := gocni.New(gocni.WithPluginDir([]string{filepath.Join(dir, "bin")}), gocni.WithConfListBytes(conf))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, id string) error {
		opts := []gocni.NamespaceOpts{
			gocni.WithLabels(map[string]string{
				"IgnoreUnknown": "1", "K8S_POD_NAMESPACE": "default", "K8S_POD_NAME": "web",
				"K8S_POD_INFRA_CONTAINER_ID": id, "K8S_POD_UID": "1",
			}),
			gocni.WithCapabilityPortMap([]gocni.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}),
		}
		if _, err := l.Setup(ctx, id, "/run/netns/"+id, opts...); err != nil {
			return err
		}
		return l.Remove(ctx, id, "/run/netns/"+id, opts...)
	}, nil
}

// used returns the CPU milliseconds of this process and its ended children.
func used() float64 {
	var sum float64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
		}
	}
	return sum
}

// measure runs pairs with n at a time.
func measure(p pair, n int, length time.Duration) (rate, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var done, next atomic.Int64
	var mu sync.Mutex
	var failed error
	begin, before := time.Now(), used()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for time.Since(begin) < length && ctx.Err() == nil {
				if err := p(ctx, fmt.Sprintf("pod%d", next.Add(1))); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					stop()
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	count := float64(done.Load())
	return rate{count / time.Since(begin).Seconds(), (used() - before) / count}, failed
}
