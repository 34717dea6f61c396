package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// fakeSocket is where the runtime that runs nothing listens on a node.
const fakeSocket = "/run/fakecri.sock"

// settle is how long a kubelet is left alone after its pods are ready.
const settle = 30 * time.Second

// scrapeEvery is how often metrics are asked for where there are any.
const scrapeEvery = 15 * time.Second

// load is what one kubelet used for many pods.
type load struct {
	source      cluster.Source
	median, all float64 // seconds until ready
	start       float64 // milliseconds of CPU per pod
	idle        float64 // share of a core
	calls       float64 // CRI calls per second when idle
	memory      float64 // MiB
}

// scale has each kubelet run many pods on a runtime that runs nothing, first while they
// start, then while nothing happens.
func (b *bench) scale(ctx context.Context) error {
	var sides []*side
	loads := map[cluster.Source]*load{}
	for _, source := range b.sources() {
		s, err := b.addSide(ctx, source, cluster.NodeConfig{KubeletSettings: map[string]any{
			"maxPods": b.pods + 20, "containerRuntimeEndpoint": "unix://" + fakeSocket, "readOnlyPort": 10255,
		}}, func(s *side) error { return s.startFake(ctx) })
		if err != nil {
			return err
		}
		sides = append(sides, s)
		loads[source] = &load{source: source}
	}
	for _, s := range sides {
		if err := s.measureStart(ctx, loads[s.source]); err != nil {
			return err
		}
	}
	scraping, stop := context.WithCancel(ctx)
	defer stop()
	for _, s := range sides {
		go s.scrape(scraping)
	}
	if err := b.measureIdle(ctx, sides, loads); err != nil {
		return err
	}
	return printLoads(loads[b.against], loads[cluster.Ours])
}

// sources are the kubelets that are measured, the one to compare with first.
func (b *bench) sources() []cluster.Source {
	if b.against == cluster.None {
		return []cluster.Source{cluster.Ours}
	}
	return []cluster.Source{b.against, cluster.Ours}
}

// startFake starts the runtime on the node.
func (s *side) startFake(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := s.StartProcess("fakecri", self, "fakecri", fakeSocket, s.Dir("calls"))
	if err != nil {
		return err
	}
	return testnode.Eventually(ctx, 30*time.Second, "the runtime listens", func(context.Context) error {
		if p.Exited() {
			return testnode.Fatal(errors.New("it has ended; see " + p.Log))
		}
		_, err := s.fakeCalls()
		return err
	})
}

// probed is a pod with a readiness probe, which asks the kubelet itself: the addresses
// of the pods lead nowhere.
func probed() *corev1.Pod {
	pod := template("scale", "img.example/app:1")
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 10,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: "127.0.0.1", Path: "/healthz", Port: intstr.FromInt32(10248),
		}},
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{}
	return pod
}

func (s *side) measureStart(ctx context.Context, l *load) error {
	before, err := s.kubeletUse()
	if err != nil {
		return err
	}
	ready, err := s.makePods(ctx, s.pods, probed())
	if err != nil {
		return err
	}
	after, err := s.kubeletUse()
	slices.Sort(ready)
	l.median, l.all = ready[len(ready)/2].Seconds(), ready[len(ready)-1].Seconds()
	l.start = float64((after.cpu - before.cpu).Microseconds()) / 1000 / float64(s.pods)
	fmt.Fprintf(os.Stderr, "%s: %d pods ready after %.1f s\n", s.source, s.pods, l.all)
	return errors.Join(err, sleep(ctx, settle))
}

// measureIdle watches both kubelets at the same time.
func (b *bench) measureIdle(ctx context.Context, sides []*side, loads map[cluster.Source]*load) error {
	type sample struct {
		use
		calls int
	}
	look := func() (samples []sample, errs error) {
		for _, s := range sides {
			u, err1 := s.kubeletUse()
			calls, err2 := s.fakeCalls()
			samples, errs = append(samples, sample{u, calls}), errors.Join(errs, err1, err2)
		}
		return samples, errs
	}
	before, err := look()
	if err != nil {
		return err
	}
	if err := sleep(ctx, b.idle); err != nil {
		return err
	}
	after, err := look()
	for i, s := range sides {
		l := loads[s.source]
		l.idle = (after[i].cpu - before[i].cpu).Seconds() / b.idle.Seconds()
		l.calls = float64(after[i].calls-before[i].calls) / b.idle.Seconds()
		l.memory = float64(after[i].memory) / (1 << 20)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// scrape asks for metrics and the pods until ctx ends. What a kubelet does not serve, as
// ours no /metrics/probes, it is asked for all the same.
func (s *side) scrape(ctx context.Context) {
	client := s.Client()
	for sleep(ctx, scrapeEvery) == nil {
		for _, path := range []string{"/metrics", "/metrics/probes", "/pods"} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:10255"+path, nil)
			if err != nil {
				continue
			}
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close() // what it says does not matter
			}
		}
	}
}

// printLoads prints what was measured; other is nil if only ours was.
func printLoads(other, ours *load) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kubelet\tmedian ready\tall ready\tCPU/start\tidle CPU\tCRI calls/s\tmemory")
	for _, l := range []*load{other, ours} {
		if l == nil {
			continue
		}
		fmt.Fprintf(t, "%s\t%.1f s\t%.1f s\t%.1f ms\t%.1f %%\t%.2f\t%.0f MiB\n", l.source, l.median, l.all, l.start, 100*l.idle, l.calls, l.memory)
	}
	if other == nil {
		return t.Flush()
	}
	fmt.Fprintf(t, "ratio\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", ours.median/other.median, ours.all/other.all, ours.start/other.start,
		ours.idle/other.idle, ours.calls/other.calls, ours.memory/other.memory)
	return t.Flush()
}
