package csitest

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/nodekit-go/nodekit/internal/plugintest"
)

// DefaultName is the name of a Driver that was given none.
const DefaultName = "csitest.nodekit.example"

// Config is how a Driver works. Dir is required.
type Config struct {
	// Name is that of the driver; empty: DefaultName.
	Name string
	// Dir has the socket csi.sock and a directory for each volume. The path of a socket
	// has at most 107 bytes.
	Dir string
	// Registry is the directory in which it registers; empty: it does not.
	Registry string
	// NodeID is what it calls the node; empty: "node-of-" and its name.
	NodeID string
	// Capabilities are those of its node service, beyond publishing.
	Capabilities []csiapi.NodeServiceCapability_RPC_Type
	// MaxVolumes and Topology are what it says about the node.
	MaxVolumes int64
	Topology   map[string]string
	// Versions are those of CSI that it registers with; nil: 1.13.0.
	Versions []string
	// Mounter makes its mounts; nil: real ones.
	Mounter Mounter
}

// Driver is a CSI driver that serves. Make one with Start.
type Driver struct {
	cfg     Config
	servers []*plugintest.Server
	node    *node
}

// Start returns a driver that serves. Sockets that are there already are replaced.
func Start(cfg Config) (*Driver, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("csitest: Config.Dir is %q, want an absolute path", cfg.Dir)
	}
	cfg.Name = cmp.Or(cfg.Name, DefaultName)
	cfg.NodeID = cmp.Or(cfg.NodeID, "node-of-"+cfg.Name)
	if cfg.Versions == nil {
		cfg.Versions = []string{"1.13.0"}
	}
	if cfg.Mounter == nil {
		cfg.Mounter = kernel{}
	}
	d := &Driver{cfg: cfg, node: newNode(cfg)}
	err := d.serve(d.Endpoint(), func(s *grpc.Server) {
		csiapi.RegisterIdentityServer(s, identity{name: cfg.Name})
		csiapi.RegisterNodeServer(s, d.node)
	})
	if err == nil && cfg.Registry != "" {
		err = d.serve(filepath.Join(cfg.Registry, cfg.Name+"-reg.sock"), func(s *grpc.Server) {
			registerapi.RegisterRegistrationServer(s, &registration{driver: d})
		})
	}
	if err != nil {
		d.Stop()
		return nil, fmt.Errorf("csitest: %w", err)
	}
	return d, nil
}

// serve serves at a socket.
func (d *Driver) serve(socket string, register func(*grpc.Server)) error {
	s, err := plugintest.Serve(socket, register)
	if err == nil {
		d.servers = append(d.servers, s)
	}
	return err
}

// Name is the name of the driver.
func (d *Driver) Name() string { return d.cfg.Name }

// Endpoint is the path of the socket on which it serves CSI.
func (d *Driver) Endpoint() string { return filepath.Join(d.cfg.Dir, "csi.sock") }

// Versions are those of CSI that it speaks.
func (d *Driver) Versions() []string { return slices.Clone(d.cfg.Versions) }

// Volume is the directory with the content of a volume.
func (d *Driver) Volume(handle string) string { return d.node.volume(handle) }

// Stop ends the driver and removes its sockets. Mounts stay, as with a driver that is
// restarted. It may be called more than once.
func (d *Driver) Stop() {
	for _, s := range d.servers {
		s.Stop()
	}
}

// Kill ends the driver and leaves its sockets.
func (d *Driver) Kill() {
	for _, s := range d.servers {
		s.Kill()
	}
}

// Call is one that came.
type Call struct {
	// Op is the method, such as NodePublishVolume, and Volume is the handle.
	Op, Volume string
	// Staging and Target are the paths.
	Staging, Target string
	ReadOnly        bool
	// Context and Secrets are the driver's to read, PublishContext is from the attacher.
	Context, Secrets, PublishContext map[string]string
	Capability                       *csiapi.VolumeCapability
	// Bytes is the size that is wanted of a volume that grows.
	Bytes int64
}

// Calls returns those that came about volumes, in their order.
func (d *Driver) Calls() []Call {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	return slices.Clone(d.node.calls)
}

// Ops returns the methods of the calls that came about volumes, in their order.
func (d *Driver) Ops() []string {
	calls := d.Calls()
	out := make([]string, 0, len(calls))
	for _, c := range calls {
		out = append(out, c.Op)
	}
	return out
}

// Busy returns the volumes about which a call is going on, by method. One that the caller
// gave up goes on until the driver has noticed.
func (d *Driver) Busy() map[string]string {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	return maps.Clone(d.node.busy)
}

// Misuse returns what an agent did that CSI forbids: calls about one volume at the same
// time, a volume that is published before it is staged, or unstaged while it is
// published.
func (d *Driver) Misuse() []string {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	return slices.Clone(d.node.misuse)
}

// Registered reports whether an agent has told the driver that it is registered, and
// what it was told last if not.
func (d *Driver) Registered() (ok bool, why string) {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	return d.node.registered, d.node.refused
}

// Published returns the handles of the volumes that are published, by target.
func (d *Driver) Published() map[string]string {
	return d.node.publishedNow()
}

// SetUsage says what a volume takes up from now on, for a driver with the capability
// GET_VOLUME_STATS.
func (d *Driver) SetUsage(handle string, usage []*csiapi.VolumeUsage) {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	d.node.usages[handle] = slices.Clone(usage)
}

// SetMaxVolumes says how many volumes can be attached to the node from now on.
func (d *Driver) SetMaxVolumes(n int64) {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	d.node.max = n
}

// Inject has the next calls of a method do something else, as often as times says; less
// than one: always, until the next Inject for the method. A nil fault ends it.
func (d *Driver) Inject(op string, f Fault, times int) {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	if f == nil {
		delete(d.node.faults, op)
		return
	}
	d.node.faults[op] = &injected{fault: f, left: times, always: times < 1}
}
