package proxy

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/conntrack"
	"github.com/nodekit-go/nodekit/proxier/healthcheck"
	"github.com/nodekit-go/nodekit/proxier/source"
)

// runnerFunc makes a Runner of a function.
type runnerFunc func(context.Context) error

// Run calls f.
func (f runnerFunc) Run(ctx context.Context) error { return f(ctx) }

// wiring makes the parts of a Proxy, one step after the other.
type wiring struct {
	cfg      Config
	client   *rest.Config // nil without an API server
	families []proxier.Family
	metrics  *metrics
	events   *events
	problems *problems
	node     *node
	listen   []proxier.Follower

	proxier *proxier.Proxier
	parts   []Runner
	closer  io.Closer
	host    *host // nil without Config.PrepareHost
	// counters is nil but in mode iptables.
	counters iptablesCounters
}

func newWiring(cfg Config) (*wiring, error) {
	w := &wiring{cfg: cfg, families: families()}
	w.metrics = newMetrics(w.families)
	switch {
	case cfg.Sources != nil:
	case cfg.SourceDir != "":
		if cfg.Client != nil || cfg.Master != "" || cfg.Proxy.ClientConnection.Kubeconfig != "" {
			return nil, errors.New("both an API server and --source-dir are set: Services come from one of them")
		}
	default:
		var err error
		if w.client, err = cfg.client(); err != nil {
			return nil, err
		}
		if w.client == nil {
			return nil, errNoSource
		}
		if w.events, err = newEvents(w.client, cfg.NodeName, cfg.Log); err != nil {
			return nil, err
		}
		w.parts = append(w.parts, w.events)
	}
	w.problems = newProblems(w.metrics, w.events, cfg.Log)
	if cfg.ConfigFile != "" {
		w.parts = append(w.parts, &configFile{
			path: cfg.ConfigFile, loaded: cfg.Proxy, log: cfg.Log,
			problem: func(err error) { w.problems.set(aboutConfig, err) },
		})
	}
	return w, nil
}

// backend makes the Backend, and what cleans up around it in the same namespace.
func (w *wiring) backend() error {
	if w.cfg.Backend != nil {
		return nil
	}
	m, err := w.newMode()
	if err != nil {
		return err
	}
	w.cfg.Backend, w.closer = m.backend, m.closer
	cleaner, err := conntrack.New(conntrack.Config{Delay: flowsLeave(modeOf(w.cfg.Proxy)), Observe: w.metrics.searched, Log: w.cfg.Log})
	if err != nil {
		return err
	}
	leftovers := newLeftovers(m.others, func(err error) { w.problems.set(aboutOthers, err) })
	w.listen = append(w.listen, cleaner, leftovers)
	drift := runnerFunc(func(ctx context.Context) error { return m.backend.Watch(ctx, w.proxier.RequestReset) })
	w.parts = append(w.parts, cleaner, leftovers, drift)
	return nil
}

// hooks are who hears of what the Backend cannot do for now.
func (w *wiring) hooks() hooks {
	return hooks{
		unswept:  w.metrics.unswept,
		deaf:     func(err error) { w.problems.set(aboutDrift, err) },
		degraded: func(err error) { w.problems.set(aboutRules, err) },
	}
}

// followers makes the parts that hear of what is in force.
func (w *wiring) followers() error {
	primary, prefixes := nodePortAddresses(w.cfg)
	ports, err := healthcheck.NewNodePorts(healthcheck.NodePortsConfig{
		Healthy: w.healthy, Families: w.families, Primary: primary, Addresses: prefixes, Log: w.cfg.Log,
		Failed: func(s healthcheck.Service, _ uint16, err error) {
			w.events.onService(s.Namespace, s.Name, "FailedToStartServiceHealthcheck", "Listen", err.Error())
		},
	})
	if err != nil {
		return err
	}
	w.listen = append(w.listen, ports, w.metrics.without)
	w.parts = append(w.parts, ports)
	if w.cfg.PrepareHost {
		w.host = &host{
			prepare: func() (bool, error) { return prepareHost(w.cfg) },
			problem: func(err error) { w.problems.set(aboutHost, err) },
			reset: func() {
				if modeOf(w.cfg.Proxy) == config.IPTables { // its rules depend on conntrack.tcpBeLiberal
					w.proxier.RequestReset()
				}
			},
			ready: make(chan struct{}),
		}
		w.listen, w.parts = append(w.listen, w.host), append(w.parts, w.host)
	}
	return nil
}

// staleAfter is how long a change may wait before the proxy counts as unhealthy.
func (w *wiring) staleAfter() time.Duration { return 2 * period(w.cfg.Proxy) }

func (w *wiring) healthy() bool {
	return w.proxier != nil && !w.proxier.Status().Stale(time.Now(), w.staleAfter())
}

// loop makes the proxier.
func (w *wiring) loop() error {
	// With an API server, until the Node says more, which may be never.
	network := proxier.Network{NodeAddrs: primaryAddrs(w.cfg.Proxy.BindAddress)}
	var err error
	w.proxier, err = proxier.New(w.cfg.Backend, proxier.Config{
		Node:        proxier.Node{Name: w.cfg.NodeName},
		Network:     network,
		MinInterval: pause(w.cfg.Proxy),
		Followers:   w.listen,
		Observe:     w.metrics.observe,
		Log:         w.cfg.Log,
	})
	if err != nil {
		return err
	}
	w.metrics.follow(w.proxier.Status)
	w.node = &node{
		target: w.proxier, bindAddress: w.cfg.Proxy.BindAddress, podCIDRs: needsNode(w.cfg.Proxy),
		eligible: w.client == nil, network: network,
	}
	return nil
}

func (w *wiring) sources() error {
	sources := w.cfg.Sources
	if sources == nil {
		sources = w.ownSources
	}
	parts, err := sources(w.proxier)
	w.parts = append(append(w.parts, parts...), w.proxier)
	return err
}

func (w *wiring) ownSources(p *proxier.Proxier) ([]Runner, error) {
	if w.client != nil {
		return w.cfg.informers(w.client, p, w.node, w.metrics)
	}
	return w.cfg.manifests(p, w.metrics)
}

// manifests are the sources that SourceDir and PodsURL ask for.
func (c *Config) manifests(p *proxier.Proxier, m *metrics) ([]Runner, error) {
	name := "manifests in " + c.SourceDir
	if c.PodsURL != "" {
		name += ", pods from " + c.PodsURL
	}
	sink := m.counted(p.Feed(name))
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

// servers makes what answers over HTTP.
func (w *wiring) servers() error {
	health := w.cfg.Health
	if health == nil {
		health = w.healthServer
		w.parts = append(w.parts, newServer(&w.cfg, w.metrics, func(err error) {
			w.events.onNode(corev1.EventTypeWarning, "FailedToStartMetricServer", err.Error())
		}))
	}
	part, err := health(w.proxier.Status)
	w.parts = append(w.parts, part)
	return err
}

func (w *wiring) healthServer(status func() proxier.Status) (Runner, error) {
	return healthcheck.New(w.cfg.Proxy.HealthzBindAddress, healthcheck.Config{
		Status:       status,
		Families:     w.families,
		StaleAfter:   w.staleAfter(),
		NodeEligible: w.node.isEligible,
		Problems:     w.problems.all,
		BindHardFail: w.cfg.Proxy.BindAddressHardFail,
		Answered:     w.metrics.answered,
		Failed: func(err error) {
			w.events.onNode(corev1.EventTypeWarning, "FailedToStartProxierHealthcheck", err.Error())
		},
		Log: w.cfg.Log,
	})
}
