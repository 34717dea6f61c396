package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
	"github.com/nodekit-go/nodekit/podworker/admission"
	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/gc"
	"github.com/nodekit-go/nodekit/runtime/logs"
	"github.com/nodekit-go/nodekit/runtime/server"
	"github.com/nodekit-go/nodekit/runtime/server/stats"
	"github.com/nodekit-go/nodekit/staticpods"
)

// Runtime is the container runtime of a node. *runtime.Client is one.
type Runtime interface {
	podsync.Runtime
	images.Lister
	gc.Runtime
	server.Runtime
	RuntimeAbout
	logs.Runtime
	RuntimeLists
	// Close ends the connection; calls in flight fail.
	Close() error
}

// RuntimeLists is how a container runtime tells of all that it has at once.
type RuntimeLists interface {
	// ListContainerStats is the CRI call of this name.
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	// Snapshot lists what there is.
	Snapshot(ctx context.Context) (*runtime.Snapshot, error)
}

// RuntimeAbout is what a container runtime tells of itself, and is told of the node: the
// CRI calls of these names.
type RuntimeAbout interface {
	Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error)
	RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error)
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
	UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error
}

// Source delivers the whole set of pods that have to run here. *staticpods.Source
// is one.
type Source interface {
	// Run calls set at the start and after each change until ctx ends.
	Run(ctx context.Context, set func(staticpods.Set)) error
	// Statuses says what became of each file, for the page /manifests.
	Statuses() []staticpods.FileStatus
}

// Config configures a Node. Kubelet and Name are required; every other field
// replaces a part or a default.
type Config struct {
	// Kubelet is the configuration; empty fields have the kubelet's defaults. Honoured
	// lists the fields that matter.
	Kubelet *kubeletconfig.KubeletConfiguration
	// Name is the name of the node; it becomes part of the names of static pods.
	Name string
	// Root is the directory of the agent's own data, made with mode 0750 if it is
	// missing; empty: /var/lib/kubelet.
	Root string
	// TakeOver stops and removes pods on the runtime that others made and that no
	// manifest names. By default they are left alone.
	TakeOver bool
	// Client is the API server of the node's cluster, whose pods it runs beside those of
	// the manifests; nil: there is none.
	Client kubernetes.Interface
	// PodStore keeps the specs of the API server's pods for a reboot without it; nil: as
	// in a kubelet they are not run before it answers.
	PodStore *PodStore
	// Plugins hands drivers over that have volumes for the pods of Client, until ctx ends;
	// nil: those that register in the directory plugins_registry of Root.
	Plugins func(ctx context.Context, drivers Drivers) error
	// Devices says how the devices of the machine are handed out.
	Devices DevicePlugins
	// Heartbeat tells the cluster that the node is there, and how it is; nil: nobody is
	// told.
	Heartbeat *Heartbeat
	// Power says when the machine goes down, which gives the pods the time of the
	// configuration to end; nil: systemd-logind.
	Power shutdown.Source
	// Labels are those of a node without a Heartbeat beside the default ones. Pods may ask
	// for them.
	Labels map[string]string
	// IPs are the addresses of a node without a Heartbeat, which its pods are told; see
	// nodestatus.ParseNodeIPs. Empty: those from which the machine talks to the world.
	IPs []netip.Addr
	// Log gets what happens, also the events of pods; nil discards.
	Log *slog.Logger
	// Collectors are exported with the node's own metrics; their names must be new.
	Collectors []prometheus.Collector

	// Serving is called once all servers listen; nil: nobody is told.
	Serving func()
	// Beside runs beside the node until ctx ends, like what watches the machine; an error
	// ends the node. nil: nothing does.
	Beside func(ctx context.Context, tell Tell) error

	// Dial connects to the runtime; nil: by CRI, at containerRuntimeEndpoint.
	Dial func(ctx context.Context) (Runtime, error)
	// Source makes the source of pods. It is told how to find the UID under which a
	// pod runs already. nil: the directory staticPodPath.
	Source func(adopt AdoptUID) (Source, error)
	// Remote makes another source of pods, which refer to no objects; nil: the URL
	// staticPodURL, or none if Source is set.
	Remote func(adopt AdoptUID) (Source, error)
	// Listen opens the servers' listeners: "tcp" for health, "unix" for the local
	// API; nil: real ones.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// API says how the HTTPS API is served.
	API API
	// Probes says how probes are run.
	Probes Probes
	// metrics counts what happens.
	metrics *metrics
	// Limits bound how many pods start at the same time and what is kept of dead
	// containers.
	Limits podsync.Limits
	// CredentialPlugins have credentials for registries.
	CredentialPlugins CredentialPlugins
	// Cgroups removes the cgroups of pods, which the runtime makes; nil: the node makes
	// and removes them in the hierarchies of this machine.
	Cgroups podsync.Cgroups
	// Slices makes the cgroups of pods if the runtime has the systemd driver; nil: systemd
	// does, over the system bus.
	Slices cgroups.Slices
	// Gauge measures what is left on the machine, below which pods are evicted; nil: this
	// machine, or nobody is evicted if Cgroups is set.
	Gauge Gauge
	// Machine says where the resources of the machine are read; empty fields: this
	// machine, the filesystem of Root, as often as a kubelet.
	Machine capacity.Config
	// Host describes the machine to pods; its fields Name, Root, Logs, Cgroups and
	// Instance are filled in. nil: this machine.
	Host *podspec.Node
}

// validate names the first field that is wrong and fills defaults in.
func (c Config) validate() (Config, error) {
	switch {
	case c.Kubelet == nil:
		return c, errors.New("node: Config.Kubelet is nil, want the kubelet's configuration")
	case c.Name == "":
		return c, errors.New("node: Config.Name is empty, want the name of the node")
	}
	if err := c.Heartbeat.validate(); err != nil {
		return c, err
	}
	if err := (nodestatus.AddressRules{NodeIPs: c.IPs}).Validate(); err != nil {
		return c, fmt.Errorf("node: Config.IPs: %w", err)
	}
	c.Kubelet = c.Kubelet.DeepCopy()
	config.SetDefaults(c.Kubelet)
	if c.Root == "" {
		c.Root = podspec.DefaultRoot
	}
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return c, fmt.Errorf("node: Config.Root: %w", err)
	}
	c.Root = root
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.metrics = newMetrics(c.Name)
	if c.Dial == nil {
		c.Dial = dialer(c.Kubelet, c.metrics)
	}
	if c.Source == nil {
		c.Source = directory(c)
		if c.Remote == nil && c.Kubelet.StaticPodURL != "" {
			c.Remote = remote(c)
		}
	}
	if c.Listen == nil {
		c.Listen = listen
	}
	return c, nil
}

// Node is a standalone kubelet: it runs the pods of its manifests on a container
// runtime.
type Node struct {
	cfg     Config
	log     *slog.Logger
	catalog *catalog
	source  Source
	// id tells this process from others.
	id string
	// runtimeSeen beats when the runtime answers.
	runtimeSeen pulse
	agent       lateAgent
	resources   lateResources
	sysctls     admission.Sysctls
	events      *events.Recorder
	api         apiHooks
	ties
	// watch is told each status; nil: nobody listens.
	watch func(corev1.PodStatus)
	// guest says that another agent looks after the machine: what is common to all pods,
	// such as the weights of their classes and the images, is left alone.
	guest bool
	// driver is who names the cgroups, known once the runtime has answered.
	driver string
}

// ties are what binds a node to its cluster and to its machine; nil where it is not
// bound.
type ties struct {
	beat  *heartbeat
	power *shutdown.Manager
	// remote has the pods of a URL.
	remote Source
	// devices are handed out; nil: there are none.
	devices *deviceDesk
	// alignment is nil where another agent looks after the machine.
	alignment *alignment
	// statistics tell how much the node and its pods use.
	statistics *stats.Collector
}

// New returns a Node. It does nothing yet.
func New(cfg Config) (*Node, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Log, catalog: newCatalog(), id: rand.Text(), events: newEvents(cfg)}
	cfg.metrics.registry.MustRegister(newGauges(n))
	for _, c := range cfg.Collectors {
		if err := cfg.metrics.registry.Register(c); err != nil {
			return nil, fmt.Errorf("node: Config.Collectors: %w", err)
		}
	}
	if err := n.measure(); err != nil {
		return nil, err
	}
	if n.source, err = cfg.Source(n.adopt); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if cfg.Remote != nil {
		if n.remote, err = cfg.Remote(n.adopt); err != nil {
			return nil, fmt.Errorf("node: %w", err)
		}
	}
	if n.beat, err = newHeartbeat(n); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if n.power, err = newShutdown(n); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return n, nil
}

// adopt is the [AdoptUID] of the node. Manifests are read when there is an agent.
func (n *Node) adopt(pod *corev1.Pod) (types.UID, bool) {
	if a := n.agent.get(); a != nil {
		return a.adopt(pod)
	}
	return "", false
}

// Run runs the pods until ctx ends; then it returns nil and leaves them running.
// A runtime that is down is waited for. Other errors end it: a root directory or an
// address that is in use, a source that fails.
func (n *Node) Run(ctx context.Context) error {
	lock, err := openRoot(n.cfg.Root)
	if err != nil {
		return err
	}
	defer lock.Close()
	mem, err := openMemory(n.cfg.Root)
	if err != nil {
		return err
	}
	if mem.statuses, err = openStatuses(filepath.Join(n.cfg.Root, statusDir)); err != nil {
		n.log.Warn("what was told of some pods before is not known; their containers are unready until their probes succeed", "err", err)
	}
	if err := n.readMachine(); err != nil {
		return err
	}
	if err := n.openDevices(); err != nil {
		return err
	}
	if err := n.openAlignment(); err != nil {
		return err
	}
	instance, err := readInstance(n.cfg.Root)
	if err != nil {
		return err
	}
	n.log.Info("kubelet is starting", "node", n.cfg.Name, "root", n.cfg.Root, "instance", instance)
	g, ctx := errgroup.WithContext(ctx)
	if err := n.serve(ctx, g); err != nil {
		return err
	}
	n.events.Record(events.OfNode(n.cfg.Name), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	if n.cfg.Serving != nil {
		n.cfg.Serving()
	}
	g.Go(func() error { return n.beside(ctx) })
	g.Go(func() error { return n.statistics.Run(ctx) })
	g.Go(func() error { return n.watchMachine(ctx) })
	g.Go(func() error { return n.devices.run(ctx) })
	g.Go(func() error { return n.events.Run(ctx) })
	g.Go(func() error { return n.beat.run(ctx) })
	g.Go(func() error { return n.watchPower(ctx) })
	g.Go(func() error { return n.watchResolver(ctx) })
	g.Go(func() error { return n.work(ctx, instance, mem) })
	err = g.Wait()
	n.log.Info("kubelet has stopped; its pods keep running")
	return err
}

// dialRetry is the time between two attempts to reach the runtime, sayEvery the
// number of attempts between two complaints.
const (
	dialRetry = time.Second
	sayEvery  = 30
)

// connect waits until the runtime answers, and returns it with its name. It is nil
// when ctx ended before.
func (n *Node) connect(ctx context.Context) (Runtime, string) {
	tick := time.NewTicker(dialRetry)
	defer tick.Stop()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		rt, name, err := n.dial(ctx)
		if err == nil {
			return rt, name
		}
		n.runtimeSeen.beat(time.Now(), err)
		if attempt%sayEvery == 0 && ctx.Err() == nil {
			n.log.Warn("container runtime does not answer, trying again", "every", dialRetry, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil, ""
}

// dial makes one attempt.
func (n *Node) dial(ctx context.Context) (Runtime, string, error) {
	rt, err := n.cfg.Dial(ctx)
	if err != nil {
		return nil, "", err
	}
	v, err := rt.Version(ctx, "")
	if err != nil {
		return nil, "", errors.Join(err, rt.Close())
	}
	if n.driver, err = n.cgroupDriver(ctx, rt); err != nil {
		return nil, "", errors.Join(err, rt.Close())
	}
	n.log.Info("connected to container runtime", "name", v.GetRuntimeName(), "version", v.GetRuntimeVersion(), "api", v.GetRuntimeApiVersion())
	return rt, v.GetRuntimeName(), nil
}

// work connects to the runtime and runs the agent on it.
func (n *Node) work(ctx context.Context, instance string, mem *memory) error {
	rt, name := n.connect(ctx)
	if rt == nil {
		return nil
	}
	defer rt.Close() //nolint:errcheck // all calls have returned
	sync, err := n.syncConfig(instance, name, n.driver)
	if err != nil {
		return err
	}
	a, err := newAgent(ctx, n, rt, mem, sync)
	if err != nil {
		return err
	}
	n.agent.set(a)
	a.fitMachine(n.resources.p.Load()) // it may have changed while the agent was made
	return a.run(ctx)
}
