package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// Config says how long what is to live.
type Config struct {
	// For is how long the churn lasts, from the first pod on, its pauses included. Required.
	For time.Duration
	// Kubelet and Proxy say whose programs run; empty means stock.
	Kubelet, Proxy cluster.Source
	// Backend is kube-proxy's mode: nftables, which empty means, or iptables.
	Backend string
	// Runtime is the container runtime; empty means the distribution's containerd.
	Runtime cluster.Runtime
	// Seed makes what is random come the same again. 0 is a seed like others.
	Seed uint64
	// Dir is the folder for the samples and for the logs of all programs. Required.
	Dir string
	// Progress receives a line for each step and each minute. Nil means silence.
	Progress func(string)
}

// Title names what runs.
func (c *Config) Title() string {
	return fmt.Sprintf("kubelet %s, kube-proxy %s (%s), %s", c.Kubelet, c.Proxy, c.Backend, c.Runtime)
}

func (c *Config) complete() error {
	if c.For <= 0 || c.Dir == "" {
		return errors.New("soak: Config.For and Config.Dir must be set")
	}
	c.Backend = cmp.Or(c.Backend, "nftables")
	c.Runtime = cmp.Or(c.Runtime, cluster.Containerd)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("soak: make folder: %w", err)
	}
	return nil
}

const (
	// maxRound is how long there is churn between two quiet points, at most.
	maxRound = 10 * time.Minute
	// maxWarmUp is the length of the round before the baseline: long enough that each
	// path of the programs was gone once.
	maxWarmUp = 3 * time.Minute
	// samplePeriod is the time between two looks at the node.
	samplePeriod = 15 * time.Second
	// settleLimit is how long the node may take to tidy up when all is gone. A kubelet
	// looks for containers, folders and logs that nobody needs each minute.
	settleLimit = 5 * time.Minute
	// settlePeriod is the time between two looks meanwhile.
	settlePeriod = 3 * time.Second
	// calm is how long the counts must stay the same before they are the baseline.
	calm = 30 * time.Second
)

// soak is one run.
type soak struct {
	cfg     Config
	cluster *cluster.Cluster
	node    *cluster.Node
	api     kubernetes.Interface
	meter   *meter
	log     *log
	began   time.Time
	samples []Sample
}

// SamplesFile is the file in [Config.Dir] that has each [Sample] as a line of JSON.
const SamplesFile = "samples.jsonl"

// Run starts a cluster of one node, lets it live, and stops it. An error says that the soak
// could not be done; there is a report nevertheless of what was seen until then, if
// anything was. It needs root and the packages that [cluster.Prepare] installs.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(cfg.Dir, SamplesFile))
	if err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	c, err := start(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop(ctx)) }()
	api, err := connect(c)
	if err != nil {
		return nil, err
	}
	s := &soak{
		cfg: cfg, cluster: c, node: c.Node(0), api: api, began: time.Now(),
		meter: newMeter(c.Node(0), api, &cfg), log: newLog(cfg.Progress, file),
	}
	err = s.live(ctx)
	return s.report(ctx), err
}

// start starts the cluster. CoreDNS is left out, whose pods would not end with a round.
func start(ctx context.Context, cfg *Config) (*cluster.Cluster, error) {
	image := workload()
	binary, err := testnode.Build(ctx, cfg.Dir, image.Program)
	if err != nil {
		return nil, err
	}
	archive := binary + ".tar"
	if err := testnode.ArchiveProgram(archive, image.Ref, binary); err != nil {
		return nil, fmt.Errorf("make image %s: %w", image.Ref, err)
	}
	return cluster.Start(ctx, cluster.Config{
		Name: "soak", Logs: filepath.Join(cfg.Dir, "logs"), Nodes: 1, NoDNS: true, Images: []string{archive}, Progress: cfg.Progress,
		Node: cluster.NodeConfig{
			Kubelet: cfg.Kubelet, Proxy: cfg.Proxy, Backend: cfg.Backend, Runtime: cfg.Runtime,
			ProxySettings: map[string]any{"enableProfiling": true},
		},
	})
}

// connect makes an administrator's client.
func connect(c *cluster.Cluster) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	config.Dial = patiently(c.Plane())
	config.Timeout = askLimit
	return kubernetes.NewForConfig(config)
}

// live warms the node up, takes the baseline, and then lets rounds of churn and quiet
// points follow each other.
func (s *soak) live(ctx context.Context) error {
	length := min(maxRound, s.cfg.For/3)
	if err := s.round(ctx, 0, min(maxWarmUp, length)); err != nil {
		return err
	}
	for n := 1; ; n++ {
		left := s.cfg.For - time.Since(s.began)
		if left <= 0 && n > 1 { // There is a round to be judged, however long it took to warm up.
			return nil
		}
		if err := s.round(ctx, n, min(length, max(left, 0))); err != nil {
			return err
		}
	}
}

// round is a stretch of churn, with samples, and the quiet point after it.
func (s *soak) round(ctx context.Context, n int, length time.Duration) error {
	s.tell(fmt.Sprintf("round %d: churn for %s", n, length.Round(time.Second)))
	sampling, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.keepSampling(sampling)
	}()
	r := &round{
		cluster: s.cluster, node: s.node, api: s.api, log: s.log, meter: s.meter,
		seed: [2]uint64{s.cfg.Seed, uint64(n) << 8}, namespace: fmt.Sprintf("soak-%d", n),
	}
	err := r.run(ctx, length)
	stop()
	<-ended
	if err != nil {
		return fmt.Errorf("round %d: %w", n, err)
	}
	return s.quiet(ctx)
}

// keepSampling looks at the node until ctx ends.
func (s *soak) keepSampling(ctx context.Context) {
	for i := 0; pause(ctx, samplePeriod); i++ {
		counts, err := s.meter.count(ctx)
		if err == nil {
			err = s.add(Sample{Counts: counts}, i%4 == 0)
		}
		if err != nil && ctx.Err() == nil {
			s.log.fail(err)
		}
	}
}

// add keeps a sample, and tells of it.
func (s *soak) add(sample Sample, tell bool) error {
	sample.At = time.Since(s.began).Round(time.Millisecond)
	s.samples = append(s.samples, sample)
	if tell {
		s.tell(line(sample, s.log))
	}
	return s.log.sample(sample)
}

// quiet waits until the node has no more than at the baseline, or until nothing changes any
// more when there is none yet, and takes a sample.
func (s *soak) quiet(ctx context.Context) error {
	settled := s.calms()
	if base := s.baseline(); base != nil {
		settled = func(c Counts) bool { return len(c.Exceeds(base)) == 0 }
	}
	counts, err := s.settle(ctx, settled)
	if err != nil {
		return err
	}
	if err := s.meter.heaps(ctx, counts); err != nil {
		return err
	}
	if err := s.add(Sample{Quiet: true, Counts: counts}, true); err != nil {
		return err
	}
	return s.explain(ctx, counts)
}

// settle waits until the node has settled, or has had the time to, and returns what it has.
func (s *soak) settle(ctx context.Context, settled func(Counts) bool) (Counts, error) {
	limited, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		counts, err := s.meter.count(ctx)
		if err == nil && settled(counts) {
			return counts, nil
		}
		if !pause(limited, settlePeriod) {
			return counts, errors.Join(err, ctx.Err())
		}
	}
}

// explain keeps the stacks of all goroutines of a quiet point: beside those of another
// they tell what was left. It tells of what has become more.
func (s *soak) explain(ctx context.Context, counts Counts) error {
	for _, m := range counts.Exceeds(s.baseline()) {
		s.tell(fmt.Sprintf("LEFT: %d %s, %d at the baseline", counts[m], m, s.baseline()[m]))
	}
	at := time.Since(s.began).Round(time.Second)
	return s.meter.profile(ctx, "goroutine", func(program string, text []byte) error {
		return os.WriteFile(filepath.Join(s.cfg.Dir, fmt.Sprintf("goroutines of %s, %s.txt", program, at)), text, 0o644)
	})
}

// calms returns a function that reports whether nothing of a pod is left and what must come
// back to its number has been the same for a while.
func (s *soak) calms() func(Counts) bool {
	var (
		last  Counts
		since time.Time
	)
	return func(c Counts) bool {
		if last == nil || len(c.Exceeds(last)) > 0 || len(last.Exceeds(c)) > 0 || len(c.OfPods()) > 0 {
			last, since = c, time.Now()
		}
		return time.Since(since) >= calm
	}
}

// baseline is the first quiet sample.
func (s *soak) baseline() Counts {
	for _, sample := range s.samples {
		if sample.Quiet {
			return sample.Counts
		}
	}
	return nil
}

func (s *soak) report(ctx context.Context) *Report {
	o := Observation{Samples: s.samples}
	s.log.fill(&o)
	r := newReport(o)
	r.Kit, r.Date, r.Seed = s.cfg.Title(), time.Now().Format(time.DateOnly), s.cfg.Seed
	r.For, r.Seconds = s.cfg.For.String(), time.Since(s.began).Round(time.Second).Seconds()
	r.Versions = versions(context.WithoutCancel(ctx), s.node)
	return r
}

func (s *soak) tell(text string) {
	s.cfg.Progress(fmt.Sprintf("%8s  %s", time.Since(s.began).Round(time.Second), text))
}
