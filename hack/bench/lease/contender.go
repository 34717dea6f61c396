package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	upstream "k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

// namespace is where the Leases are.
const namespace = "kube-node-lease"

// The contenders: the controller of the kubelet, and Keepers with the same client and
// with one that knows nothing but Leases.
const (
	controller  = "component-helpers, client-go"
	keeper      = "nodekit, client-go"
	keeperAlone = "nodekit, own client"
)

func contenders() []string { return []string{controller, keeper, keeperAlone} }

// measurement is what a process found about itself.
type measurement struct {
	Leases   int
	Renewals int64
	Length   time.Duration
	CPU      time.Duration
	// Memory is that of live heap and stacks beyond what there was before the first
	// Lease, in bytes; RSS what the kernel counts.
	Memory, RSS uint64
	// Gap is the longest time between two renewals of one Lease.
	Gap time.Duration
}

func (m measurement) cpuPerRenewal() float64  { return float64(m.CPU) / float64(m.Renewals) }
func (m measurement) memoryPerLease() float64 { return float64(m.Memory) / float64(m.Leases) }
func (m measurement) rate() float64           { return float64(m.Renewals) / m.Length.Seconds() }

// counter is a transport that counts the renewals that succeed.
type counter struct {
	base     http.RoundTripper
	renewals atomic.Int64

	mu   sync.Mutex // guards the fields below
	last map[string]time.Time
	gap  time.Duration
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(r)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices || r.Method == http.MethodGet {
		return resp, err
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.last[name]; ok {
		c.gap = max(c.gap, now.Sub(last))
	}
	c.last[name] = now
	c.renewals.Add(1)
	return resp, nil
}

// begin forgets what was counted.
func (c *counter) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gap = 0
	c.renewals.Store(0)
}

// measure keeps Leases and counts.
func measure(ctx context.Context, name, kubeconfig string, l load) (measurement, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return measurement{}, err
	}
	config.QPS = -1
	c := &counter{last: map[string]time.Time{}}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		c.base = base
		return c
	})
	// The controller complains for each Lease when it is ended.
	klog.SetLogger(logr.Discard())
	begin, err := starter(name, config, l)
	if err != nil {
		return measurement{}, err
	}
	before := memory()
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range l.leases {
		wg.Go(func() {
			// Not all at once: the start of a thousand nodes is another matter.
			if sleep(ctx, time.Duration(i)*l.duration/2/time.Duration(l.leases)) == nil {
				begin(ctx, fmt.Sprintf("bench-%d", i))
			}
		})
	}
	defer wg.Wait()
	defer stop()
	// All exist and have been renewed once or twice before it counts.
	if err := sleep(ctx, l.duration*3/4); err != nil {
		return measurement{}, err
	}
	c.begin()
	cpu, start := cpuTime(), time.Now()
	if err := sleep(ctx, l.length); err != nil {
		return measurement{}, err
	}
	m := measurement{Leases: l.leases, Renewals: c.renewals.Load(), Length: time.Since(start), CPU: cpuTime() - cpu, RSS: rss()}
	m.Memory = memory() - before
	c.mu.Lock()
	m.Gap = c.gap
	c.mu.Unlock()
	if want := int64(l.leases) * int64(l.length/(l.duration/4)) / 2; m.Renewals < want {
		return m, fmt.Errorf("%d renewals, want at least %d: the API server does not keep up", m.Renewals, want)
	}
	return m, nil
}

// starter returns what keeps one Lease until its context ends.
func starter(name string, config *rest.Config, l load) (func(ctx context.Context, lease string), error) {
	if name == keeperAlone {
		transport, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, err
		}
		return keep(leasetest.Client{Base: config.Host, HTTP: transport}.Leases(namespace), l), nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	switch name {
	case keeper:
		return keep(client.CoordinationV1().Leases(namespace), l), nil
	case controller:
		return func(ctx context.Context, lease string) {
			upstream.NewController(clock.RealClock{}, client, lease, int32(l.duration/time.Second), nil, l.duration/4, lease, namespace, nil).Run(ctx)
		}, nil
	}
	return nil, fmt.Errorf("no contender is called %q", name)
}

// keep returns what runs a Keeper.
func keep(client lease.Client, l load) func(ctx context.Context, name string) {
	return func(ctx context.Context, name string) {
		k, err := lease.New(client, lease.Config{Name: name, Duration: l.duration})
		if err != nil {
			panic(err)
		}
		_ = k.Run(ctx) // it returns nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// cpuTime returns what this process has used, in user and kernel mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory returns the bytes of live heap and of stacks.
func memory() uint64 {
	for range 4 {
		runtime.GC() // each one shrinks stacks by half
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// rss returns the resident memory of this process in bytes, 0 if the kernel does not
// say.
func rss() uint64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kb, err := strconv.ParseUint(string(bytes.Fields(value)[0]), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}
