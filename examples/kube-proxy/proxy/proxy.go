package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/healthcheck"
	"github.com/nodekit-go/nodekit/proxier/source"
)

// Runner is a part that works until its context ends. Those of nodekit are
// *proxier.Proxier, *source.Dir, *source.Pods and *healthcheck.Server.
type Runner interface {
	Run(ctx context.Context) error
}

// Config configures a Proxy. SourceDir or Sources is required.
type Config struct {
	// Proxy is the configuration file; nil means config.Default().
	Proxy *config.Config
	// NodeName is the name of this node. Empty means hostnameOverride of the file,
	// and without that the host's name in lower case.
	NodeName string
	// SourceDir is a directory of Service and EndpointSlice manifests.
	SourceDir string
	// PodsURL is where the kubelet tells its pods, for Services with selectors:
	// "unix:///path/of/socket". Empty means that such Services need EndpointSlices
	// in SourceDir.
	PodsURL string
	// Backend programs the kernel. Nil means nftables as the file says, in the
	// network namespace of the process.
	Backend proxier.Backend
	// Sources makes the parts that feed p. Nil means SourceDir and PodsURL.
	Sources func(p *proxier.Proxier) ([]Runner, error)
	// Health makes the part that shows the status. Nil means an HTTP server at
	// healthzBindAddress.
	Health func(status func() proxier.Status) (Runner, error)
	// Log gets what all parts do. Nil discards it.
	Log *slog.Logger
}

func (c *Config) complete() error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Proxy == nil {
		c.Proxy = config.Default()
	}
	if c.NodeName == "" {
		c.NodeName = c.Proxy.HostnameOverride
	}
	if c.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find the name of the node: %w; hostnameOverride sets it", err)
		}
		c.NodeName = name
	}
	// As kube-proxy does: names of nodes are lower case.
	c.NodeName = strings.ToLower(strings.TrimSpace(c.NodeName))
	return nil
}

// Proxy is a wired kube-proxy.
type Proxy struct {
	proxier *proxier.Proxier
	parts   []Runner
	// closer is the Backend if New made it.
	closer io.Closer
	log    *slog.Logger
}

// New wires a Proxy. It starts nothing and does not touch the kernel.
func New(cfg Config) (*Proxy, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if cfg.Sources == nil && cfg.SourceDir == "" {
		return nil, errors.New("there is no source of Services: set --source-dir to a directory of manifests")
	}
	p := &Proxy{log: cfg.Log}
	if cfg.Backend == nil {
		b, err := newNFTables(cfg)
		if err != nil {
			return nil, err
		}
		cfg.Backend, p.closer = b, b
	}
	var err error
	p.proxier, err = proxier.New(cfg.Backend, proxier.Config{
		Node:        proxier.Node{Name: cfg.NodeName},
		MinInterval: cfg.Proxy.NFTables.MinSyncPeriod.Duration,
		Log:         cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if cfg.Sources == nil {
		cfg.Sources = cfg.manifests
	}
	sources, err := cfg.Sources(p.proxier)
	if err != nil {
		return nil, err
	}
	if cfg.Health == nil {
		cfg.Health = cfg.healthServer
	}
	health, err := cfg.Health(p.proxier.Status)
	if err != nil {
		return nil, err
	}
	p.parts = append(sources, p.proxier, health)
	for _, problem := range cfg.Proxy.Problems {
		cfg.Log.Warn("configuration has no effect", "line", problem.Line, "field", problem.Field, "reason", problem.Reason)
	}
	return p, nil
}

// manifests are the sources that SourceDir and PodsURL ask for.
func (c *Config) manifests(p *proxier.Proxier) ([]Runner, error) {
	name := "manifests in " + c.SourceDir
	if c.PodsURL != "" {
		name += ", pods from " + c.PodsURL
	}
	var sink source.Sink = unserved{Sink: p.Feed(name), log: c.Log}
	var out []Runner
	if c.PodsURL != "" {
		pods, err := source.NewPods(c.PodsURL, sink, source.PodsConfig{NodeName: c.NodeName, Log: c.Log})
		if err != nil {
			return nil, err
		}
		sink, out = pods, append(out, pods)
	}
	dir, err := source.NewDir(c.SourceDir, sink, source.DirConfig{Log: c.Log})
	if err != nil {
		return nil, err
	}
	return append(out, dir), nil
}

// unserved passes everything on and logs what of it no part here serves.
type unserved struct {
	source.Sink
	log *slog.Logger
}

// SetService passes svc on.
func (u unserved) SetService(svc *corev1.Service) {
	if svc.Spec.HealthCheckNodePort != 0 {
		u.log.Warn("object cannot be honoured as written", "kind", "Service", "object", svc.Namespace+"/"+svc.Name,
			"field", "spec.healthCheckNodePort", "reason", "there is no server for it; a load balancer takes the node for unhealthy")
	}
	u.Sink.SetService(svc)
}

func (c *Config) healthServer(status func() proxier.Status) (Runner, error) {
	return healthcheck.New(c.Proxy.HealthzBindAddress, healthcheck.Config{
		Status:       status,
		Families:     families(),
		StaleAfter:   2 * c.Proxy.NFTables.SyncPeriod.Duration,
		BindHardFail: c.Proxy.BindAddressHardFail,
		Log:          c.Log,
	})
}

// Run proxies until ctx ends, and then returns nil: what is in force stays, so that
// Services work while nobody runs. If one part fails, the others end and Run
// returns its error.
func (p *Proxy) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range p.parts {
		g.Go(func() error { return part.Run(ctx) })
	}
	err := g.Wait()
	if p.closer != nil {
		err = errors.Join(err, p.closer.Close())
	}
	return err
}

// Status says how far what is in force is from what is desired.
func (p *Proxy) Status() proxier.Status { return p.proxier.Status() }

// Cleanup removes from the kernel what a Proxy with this Config may have made, in
// whatever process. Nothing there is not an error.
func Cleanup(ctx context.Context, cfg Config) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	if cfg.Backend != nil {
		return cfg.Backend.Cleanup(ctx)
	}
	b, err := bareNFTables(cfg)
	if err != nil {
		return err
	}
	return errors.Join(b.Cleanup(ctx), b.Close())
}
