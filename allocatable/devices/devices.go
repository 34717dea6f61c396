package devices

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

const (
	// DefaultDir is where plugins look for the socket on which they register
	// (k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1, DevicePluginPath).
	DefaultDir = "/var/lib/kubelet/device-plugins"
	// defaultGrace is how long the capacity of a plugin that has gone stays, as in the
	// kubelet.
	defaultGrace = 5 * time.Minute
	// defaultTimeout bounds Allocate and GetPreferredAllocation.
	defaultTimeout = time.Minute
)

// Config is how a [Manager] works. The zero value works on a node.
type Config struct {
	// Dir is the directory of the plugins' sockets and of the checkpoint; empty:
	// [DefaultDir].
	Dir string
	// NUMANodes are those of the machine, for hints; empty: node 0.
	NUMANodes topology.Nodes
	// Ran reports whether a container was running when this process started. Such a
	// container has its devices, whether or not their plugin has come back. nil: none ran.
	Ran func(uid types.UID, container string) bool
	// Expected reports whether an extended resource that is not known here has to come from
	// a plugin, so that the pod waits for it. nil: none; such resources are not of the
	// node, and are left alone, as in the kubelet.
	Expected func(pod *corev1.Pod, resource corev1.ResourceName) bool
	// Changed is told when devices have come, gone, or changed their health, with the pods
	// that have some of them. It must not block. nil: nobody listens.
	Changed func(pods []types.UID)
	// Grace is how long the capacity of a plugin that has gone stays, and how long after
	// the start pods wait for plugins that were there before; 0: five minutes.
	Grace time.Duration
	// Timeout bounds the calls Allocate and GetPreferredAllocation; 0: one minute.
	Timeout time.Duration
	// Hooks count.
	Hooks Hooks
	// Log gets what plugins do, and what fails; nil discards.
	Log *slog.Logger
}

// Hooks are told what happens, for metrics. They must not block. All may be nil.
type Hooks struct {
	// Registered is told each time a plugin asks to be registered.
	Registered func(resource string)
	// Allocated is told how long the plugin of a resource took to answer.
	Allocated func(resource string, took time.Duration)
}

func (c Config) validate() (Config, error) {
	if c.Dir == "" {
		c.Dir = DefaultDir
	}
	switch {
	case !filepath.IsAbs(c.Dir):
		return c, fmt.Errorf("Config.Dir is %q, want an absolute path", c.Dir)
	case c.Grace < 0, c.Timeout < 0:
		return c, fmt.Errorf("Config.Grace is %s and Timeout %s, want 0 (five minutes, one minute) or more", c.Grace, c.Timeout)
	}
	if c.NUMANodes == 0 {
		c.NUMANodes = 1
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Ran == nil {
		c.Ran = func(types.UID, string) bool { return false }
	}
	if c.Expected == nil {
		c.Expected = func(*corev1.Pod, corev1.ResourceName) bool { return false }
	}
	if c.Changed == nil {
		c.Changed = func([]types.UID) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Manager hands out devices. Make one with New.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	dial    dialer
	file    keeper
	started time.Time
	// arrivals are plugins whose lists have to be read; only Run receives.
	arrivals chan *plugin
	// wake has Run save the checkpoint.
	wake chan struct{}
	// saving is held while the checkpoint is written, so that the newest is the last.
	saving sync.Mutex

	mu sync.Mutex // guards the fields below, never over a call
	// offers is what there is, book who has what of it.
	offers inventory
	book   *ledger
	// unsaved is true if the checkpoint is not what offers and book say.
	unsaved bool
}

var _ topology.Provider = (*Manager)(nil)

// New returns a Manager with what an earlier process, or a kubelet, has left in the
// checkpoint. One that cannot be read is logged, and moved away by the next one that is
// written; then nobody knows who has what.
func New(cfg Config) (*Manager, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return newWith(cfg, dial, &diskFile{path: filepath.Join(cfg.Dir, CheckpointFile)}), nil
}

// newWith is New with the plugins and the disk handed in.
func newWith(cfg Config, d dialer, f keeper) *Manager {
	m := &Manager{
		cfg: cfg, log: cfg.Log, dial: d, file: f, started: time.Now(), arrivals: make(chan *plugin), wake: make(chan struct{}, 1),
		offers: inventory{}, book: newLedger(),
	}
	m.restore()
	return m
}

// restore reads the checkpoint.
func (m *Manager) restore() {
	raw, err := m.file.load()
	if err != nil {
		m.file.broken()
		m.log.Error("nobody knows who has which devices: the checkpoint cannot be read", "err", err)
		return
	}
	if raw == nil {
		return
	}
	data, err := parseCheckpoint(raw)
	switch {
	case errors.Is(err, errChecksum):
		// What it says is more likely true than that nobody has anything.
		m.log.Error("the checkpoint of devices is damaged; what can be read of it counts", "err", err)
	case err != nil:
		m.file.broken()
		m.log.Error("nobody knows who has which devices: the checkpoint cannot be read", "err", err)
		return
	}
	if err := m.book.restore(data.PodDeviceEntries); err != nil {
		m.log.Error("nobody knows who has some devices", "err", err)
	}
	for resource := range data.RegisteredDevices {
		m.offers.restore(resource, m.started)
	}
	for o := range m.book.all() {
		m.offers.restore(o.resource, m.started)
	}
}

// Release takes back what a pod has. The pod must have ended, or not begun.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	given := m.book.release(uid)
	m.unsaved = m.unsaved || given
	m.mu.Unlock()
	// Devices that were only kept for a pod that is refused are told to nobody: it may
	// wait for such news itself, and would be asked about without end.
	if given {
		m.log.Info("devices of a pod are free", "uid", string(uid))
		m.saveLater()
		m.cfg.Changed(nil)
	}
}

// Retain takes back what pods have that are not to be kept, such as those that went
// while no agent ran.
func (m *Manager) Retain(keep func(uid types.UID) bool) {
	m.mu.Lock()
	var gone []types.UID
	for uid := range m.book.shares {
		if !keep(uid) {
			gone = append(gone, uid)
		}
	}
	m.mu.Unlock()
	for _, uid := range gone {
		m.Release(uid)
	}
}
