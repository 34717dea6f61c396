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
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
)

// Runner is a part that works until its context ends. Those of nodekit are
// *proxier.Proxier, *informer.Source, *source.Dir, *source.Pods, *healthcheck.Server,
// *healthcheck.NodePorts and *conntrack.Cleaner.
type Runner interface {
	Run(ctx context.Context) error
}

// Config configures a Proxy. A source of Services is required: Client, Master,
// clientConnection.kubeconfig of the file, SourceDir or Sources. In a pod of a
// cluster its service account is one, too.
type Config struct {
	// Proxy is the configuration file; nil means config.Default().
	Proxy *config.Config
	// ConfigFile is where Proxy was loaded from. Run ends with an error when it changes.
	// Empty means that it is not watched.
	ConfigFile string
	// NodeName is the name of this node. Empty means hostnameOverride of the file,
	// and without that the host's name in lower case.
	NodeName string
	// Client says how to reach the API server; nil means what the file says. Master
	// overrides its address.
	Client *rest.Config
	Master string
	// SourceDir is a directory of Service and EndpointSlice manifests, which is then
	// the only source.
	SourceDir string
	// PodsURL is where the kubelet tells its pods, for Services with selectors:
	// "unix:///path/of/socket". Empty means that such Services need EndpointSlices
	// in SourceDir.
	PodsURL string
	// Backend programs the kernel. Nil means what mode of the file says, in the
	// network namespace of the process, which is then also cleaned of stale flows and
	// of what other modes left.
	Backend proxier.Backend
	// Sources makes the parts that feed p. Nil means what the fields above say.
	Sources func(p *proxier.Proxier) ([]Runner, error)
	// Health makes the part that shows the status. Nil means an HTTP server at
	// healthzBindAddress.
	Health func(status func() proxier.Status) (Runner, error)
	// PrepareHost has Run do at its start what the function of this name does, and again
	// while that fails. Services work without it; what could not be done shows in the
	// Node's events, in the metrics and in /healthz.
	PrepareHost bool
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
	closer   io.Closer
	events   *events
	problems *problems
	host     *host // nil without PrepareHost
}

// New wires a Proxy. It starts nothing and does not change the kernel; for mode ipvs it
// looks whether the kernel has that.
func New(cfg Config) (*Proxy, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	w, err := newWiring(cfg)
	if err != nil {
		return nil, err
	}
	steps := []func() error{w.backend, w.followers, w.loop, w.sources, w.servers}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, problem := range cfg.Proxy.Problems {
		cfg.Log.Warn("configuration has no effect", "line", problem.Line, "field", problem.Field, "reason", problem.Reason)
	}
	return &Proxy{proxier: w.proxier, parts: w.parts, closer: w.closer, events: w.events, problems: w.problems, host: w.host}, nil
}

// Run proxies until ctx ends, and then returns nil: what is in force stays, so that
// Services work while nobody runs. If one part fails, the others end and Run
// returns its error.
func (p *Proxy) Run(ctx context.Context) error {
	p.events.onNode(corev1.EventTypeNormal, "Starting", "")
	if p.host != nil {
		p.host.try() // rules depend on some of it
	}
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
