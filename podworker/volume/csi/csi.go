package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

const (
	// defaultTimeout bounds a call to a driver, as with the kubelet.
	defaultTimeout = 2 * time.Minute
	// dirMode is that of directories around what drivers make, as with the kubelet.
	dirMode = 0o750
)

// Config is what a Provider needs. Node, Root and API are required.
type Config struct {
	// Node is the name of the Node.
	Node string
	// Root is the directory of the agent, for kubelets /var/lib/kubelet, as the drivers
	// see it. It has to be on a mount that is shared, so that what drivers mount in
	// namespaces of their own can be seen.
	Root string
	// API reads and writes the objects that are needed.
	API API
	// Tokens has the service account tokens that drivers ask for. nil: volumes of such
	// drivers fail.
	Tokens Tokens
	// ReportsInUse says that InUse is written into the Node's status and Reported called
	// after that. Volumes that are attached are then used only when the Node says so, and
	// says that they are attached, so that the control plane detaches none that is used.
	// false: nobody waits for the Node.
	ReportsInUse bool
	// InUseChanged is called when InUse has something new, so that the Node can be
	// written at once. It must not block. nil: nobody is told.
	InUseChanged func()
	// Timeout bounds each call to a driver; 0: two minutes.
	Timeout time.Duration
	// OnEvent gets what users of a pod want to know, and those of a claim where that is not
	// nil. It is called by many goroutines and must not block; nil: nobody listens.
	OnEvent func(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, e volume.Event)
	// OnCall is told of each call to a driver, by many goroutines, and must not block: for
	// metrics. nil: nobody is told.
	OnCall func(Call)
	// Log gets what no error reports; nil discards.
	Log *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Node == "":
		return errors.New("csi: Config.Node is empty, want the name of the Node")
	case !filepath.IsAbs(c.Root):
		return fmt.Errorf("csi: Config.Root is %q, want an absolute path", c.Root)
	case c.Timeout < 0:
		return fmt.Errorf("csi: Config.Timeout is %s, want 0 (two minutes) or more", c.Timeout)
	}
	return c.API.validate()
}

// Provider sets up volumes by CSI drivers. Make one with New.
type Provider struct {
	cfg     Config
	log     *slog.Logger
	paths   paths
	host    host
	drivers drivers
	rules   rulebook
	volumes *volumes
	// locals are the local volumes that somebody works on, by the names of their objects.
	locals turns
	nodes  *publisher
	limits limits
	// wake tells Run that a volume may be unused.
	wake chan struct{}
	// unread are volumes of pods whose records could not be read, since New, and unreadPods
	// are pods of which it is not known what volumes they have.
	unread     []published
	unreadPods []types.UID
}

var _ volume.Provider = (*Provider)(nil)

// host is what is done to the host.
type host interface {
	// mounted reports whether something is mounted at a path; one that does not exist is
	// none.
	mounted(path string) (bool, error)
	// own gives a volume to a group.
	own(ctx context.Context, dir string, o ownership) error
	// unmount undoes what is mounted at or below a path.
	unmount(ctx context.Context, path string) error
	// bind shows a directory at another place, with options of mount(8).
	bind(source, target string, options []string) error
	// format mounts a device, and makes a file system on it if there is none and the options
	// allow to write.
	format(device, target, fsType string, options []string) error
}

// New returns a Provider that knows what an agent before it left on the disk, which it
// reads. A record or a directory there that cannot be read is logged, and what it is about left
// alone; so are files that are nobody's.
func New(cfg Config) (*Provider, error) { return newWith(cfg, localHost{}) }

// newWith is New with the host handed in.
func newWith(cfg Config, h host) (*Provider, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.InUseChanged == nil {
		cfg.InUseChanged = func() {}
	}
	if cfg.OnEvent == nil {
		cfg.OnEvent = func(*corev1.Pod, *corev1.PersistentVolumeClaim, volume.Event) {}
	}
	if cfg.OnCall == nil {
		cfg.OnCall = func(Call) {}
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Provider{
		cfg: cfg, log: log, host: h,
		paths:   paths{root: filepath.Clean(cfg.Root)},
		drivers: drivers{byName: map[string]*driver{}},
		rules:   rulebook{drivers: cfg.API.Drivers, known: map[string]reading{}},
		volumes: newVolumes(),
		locals:  turns{busy: map[string]chan struct{}{}},
		nodes:   newPublisher(&cfg, log),
		limits:  newLimits(),
		wake:    make(chan struct{}, 1),
	}
	if err := p.restore(); err != nil {
		return nil, fmt.Errorf("csi: %w", err)
	}
	return p, nil
}

// Supports reports whether a volume is a claim for a persistent volume, also one that is
// made for the pod, or one of a CSI driver that lives with the pod.
func (p *Provider) Supports(v *corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil
}

// Register takes a driver that serves CSI at the socket endpoint, and speaks versions of
// it. It asks the driver what it calls this node; Run writes that into the CSINode and
// the Node. An error says why the driver cannot be used.
func (p *Provider) Register(ctx context.Context, name, endpoint string, versions []string) error {
	switch {
	case (volumeID{driver: name, handle: "any"}).check() != nil:
		return fmt.Errorf("register %q: it cannot be the name of a driver", name)
	case !filepath.IsAbs(endpoint):
		return fmt.Errorf("register driver %s: its endpoint is %q, want the absolute path of a socket", name, endpoint)
	case !supported(versions):
		return fmt.Errorf("register driver %s: it speaks versions [%s] of CSI, want a version 1", name, strings.Join(versions, ", "))
	}
	d := &driver{name: name, endpoint: endpoint, timeout: p.cfg.Timeout, onCall: p.cfg.OnCall}
	if err := d.introduce(ctx); err != nil {
		return fmt.Errorf("register driver %s: %w", name, err)
	}
	p.drivers.set(name, d)
	p.nodes.set(name, &d.node)
	p.limits.soon()
	p.sweepSoon()
	return nil
}

// Deregister drops the driver at an endpoint. Its volumes stay as they are; what is to
// be done about them waits until the driver is there again. A driver that is registered
// at another endpoint meanwhile stays.
func (p *Provider) Deregister(name, endpoint string) {
	if p.drivers.removeAt(name, endpoint) {
		p.nodes.set(name, nil)
	}
}

// Drivers returns the names of the drivers that are registered, sorted.
func (p *Provider) Drivers() []string { return p.drivers.names() }

// InUse returns the volumes that must stay attached to the node, sorted: for volumesInUse
// of the Node's status.
func (p *Provider) InUse() []corev1.UniqueVolumeName { return p.volumes.inUse() }

// Reported notes which volumes the Node's status says are in use. See
// Config.ReportsInUse.
func (p *Provider) Reported(names []corev1.UniqueVolumeName) { p.volumes.reported(names) }

// Registered has Run look at the Node and the CSINode: for a Node that was made anew. Else
// it looks every five minutes.
func (p *Provider) Registered() { p.nodes.soon() }

// Ready returns nil when the CSINode object of the node exists, and else why not: pods
// with volumes of drivers are scheduled by it, so that the node is not ready before.
func (p *Provider) Ready() error { return p.nodes.ready() }

// Run keeps the CSINode object, asks drivers that want it how many volumes they have room
// for, and has volumes unstaged that no pod uses any more, until ctx ends.
func (p *Provider) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { p.nodes.run(ctx) })
	all.Go(func() { p.followLimits(ctx) })
	all.Go(func() { p.sweep(ctx) })
	all.Wait()
	return nil
}

// sweepSoon has Run look for volumes that are not used.
func (p *Provider) sweepSoon() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// ignoreMissing is err unless it says that something does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
