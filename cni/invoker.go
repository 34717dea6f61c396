package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
)

// DefaultTimeout is how long a plugin may take: the kubelet's default
// runtimeRequestTimeout.
const DefaultTimeout = 2 * time.Minute

// Config is what an Invoker needs.
type Config struct {
	// BinDirs are the directories of the plugins, the first one first. They are
	// absolute, and passed to the plugins as CNI_PATH. Required.
	BinDirs []string
	// StateDir holds a record for each attachment. It must survive a reboot where what
	// the plugins keep does: host-local has its addresses in /var/lib/cni. Processes
	// that share it share the attachments. Required, absolute; made if it is missing.
	StateDir string
	// Timeout is how long one plugin may take for one command; 0 is DefaultTimeout.
	Timeout time.Duration
	// Timeouts are those of single plugins, by type.
	Timeouts map[string]time.Duration
	// Log gets a line for each operation that undoes something; nil discards them.
	Log *slog.Logger
}

func (c *Config) complete() error {
	switch {
	case len(c.BinDirs) == 0:
		return errors.New("Config.BinDirs is empty; distributions have the plugins in /opt/cni/bin or /usr/lib/cni")
	case !filepath.IsAbs(c.StateDir):
		return fmt.Errorf("Config.StateDir is %q, must be an absolute path", c.StateDir)
	case c.Timeout < 0:
		return fmt.Errorf("Config.Timeout is %s, must not be negative", c.Timeout)
	}
	for _, dir := range c.BinDirs {
		if !filepath.IsAbs(dir) || strings.ContainsRune(dir, os.PathListSeparator) {
			return fmt.Errorf("Config.BinDirs: %q must be an absolute path without %q", dir, os.PathListSeparator)
		}
	}
	for plugin, d := range c.Timeouts {
		if d <= 0 {
			return fmt.Errorf("Config.Timeouts[%q] is %s, must be positive", plugin, d)
		}
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (c *Config) timeout(plugin string) time.Duration {
	if d, ok := c.Timeouts[plugin]; ok {
		return d
	}
	return c.Timeout
}

func (c *Config) path() string { return strings.Join(c.BinDirs, string(os.PathListSeparator)) }

// Invoker runs the plugins of networks. Make one with New.
type Invoker struct {
	cfg        Config
	disk       disk
	exec       execFunc
	gate       gate
	containers queues
}

// execFunc returns what runs plugins. They inherit a descriptor, if it is not nil,
// and do not act before ready returns nil, if it is not nil.
type execFunc func(inherit *os.File, ready func() error) invoke.Exec

// New returns an Invoker. It touches nothing yet.
func New(cfg Config) (*Invoker, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("cni: %w", err)
	}
	// Longer than any chain of plugins in use takes.
	disk := newFolder(cfg.StateDir, 5*cfg.Timeout)
	exec := func(inherit *os.File, ready func() error) invoke.Exec {
		return &processes{log: cfg.Log, inherit: inherit, ready: ready}
	}
	return newInvoker(cfg, disk, exec), nil
}

func newInvoker(cfg Config, disk disk, exec execFunc) *Invoker {
	return &Invoker{cfg: cfg, disk: disk, exec: exec, gate: newGate()}
}

// Add attaches a container to a network: it runs ADD for each plugin. When it
// fails, every plugin that may have run has got DEL before it returns, also if ctx
// has ended by then; that may take as long as these plugins may. What could not be
// undone stays recorded for Del and GC, and is part of the error.
//
// An attachment that is there already is an ErrAttached; what an ADD that a crash
// cut short has left is removed first.
func (v *Invoker) Add(ctx context.Context, n *Network, a Attachment) (*Result, error) {
	if n == nil {
		return nil, fmt.Errorf("cni add %s: %w", a.Key(), ErrNoNetwork)
	}
	result, err := v.add(ctx, n, a)
	if err != nil {
		return nil, fmt.Errorf("cni add %s to %s: %w", a.Key(), n.Name, err)
	}
	return result, nil
}

func (v *Invoker) add(ctx context.Context, n *Network, a Attachment) (*Result, error) {
	if err := a.validate(); err != nil {
		return nil, err
	}
	id, err := identify(a.NetNS)
	if err != nil {
		return nil, err
	}
	args, err := a.Capabilities.args()
	if err != nil {
		return nil, err
	}
	leave, err := v.enter(ctx, a.ContainerID)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := v.makeRoom(ctx, n, a); err != nil {
		return nil, err
	}
	intent := intent{
		Version: recordVersion, Began: time.Now(), Network: n.Name, Attachment: a.Key(), NetNS: a.NetNS, NetNSID: id,
		Args: a.Args, Capabilities: args, Config: n.list.Bytes,
	}
	raw, err := v.run(ctx, n, a, intent)
	if err != nil {
		return nil, err
	}
	result, err := parseResult(raw)
	if err == nil {
		result.Unclaimed = unclaimed(n, args)
	}
	return result, err
}

// makeRoom undoes what a crash has left of an earlier ADD of the same attachment.
func (v *Invoker) makeRoom(ctx context.Context, n *Network, a Attachment) error {
	e, err := v.find(ctx, a.Key())
	if err != nil || e == nil {
		return err
	}
	defer e.file.Close()
	if e.record != nil && e.record.result != nil {
		return fmt.Errorf("%w to network %s; DEL comes first", ErrAttached, e.network)
	}
	v.cfg.Log.Info("undo an ADD that did not finish", "container", a.ContainerID, "interface", a.IfName, "network", e.network)
	return v.remove(ctx, e, n, a)
}

// run makes the record, runs ADD, and completes the record or undoes everything.
func (v *Invoker) run(ctx context.Context, n *Network, a Attachment, i intent) (json.RawMessage, error) {
	first, err := newPage(i)
	if err != nil {
		return nil, err
	}
	name := recordName(i.Attachment, i.Network)
	file, err := v.disk.Create(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	defer file.Close()
	// The first plugin starts while the record gets on the disk, and is given its
	// configuration when it is there.
	recorded := later(func() error { return file.Write(first.data, 0) })
	c := v.chain(n, a, i.Capabilities, execution{file, recorded})
	raw, ran, err := c.add(ctx)
	if failed := recorded(); failed != nil {
		return nil, errors.Join(fmt.Errorf("record: %w", failed), v.disk.Remove(name))
	}
	if err == nil {
		err = finish(file, first, raw)
	}
	if err == nil {
		return raw, nil
	}
	undone := c.undo(context.WithoutCancel(ctx), ran)
	if undone == nil {
		undone = v.disk.Remove(name)
	}
	if undone != nil {
		v.cfg.Log.Warn("a failed ADD is not undone, DEL or GC will", "container", a.ContainerID, "interface", a.IfName, "err", undone)
		undone = fmt.Errorf("undo: %w", undone)
	}
	return nil, errors.Join(err, undone)
}

// finish completes a record.
func finish(file diskFile, first page, raw json.RawMessage) error {
	data, _, err := line(first.sum, raw)
	if err != nil {
		return err
	}
	if err := file.Write(data, first.end); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// later runs f at once, and returns a function that waits for its result.
func later(f func() error) func() error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return sync.OnceValue(func() error { return <-done })
}

// Del detaches a container: it runs DEL for each plugin, the last one first, with
// the configuration, the arguments and the result of ADD. A plugin's error ends it;
// the record stays, and another Del or GC tries again.
//
// Without a record, Del runs n as it is now, with what a says; that does no harm to
// a container that is not attached. n may be nil: then only what is recorded is
// removed, and no record means that there is nothing to do.
func (v *Invoker) Del(ctx context.Context, n *Network, a Attachment) error {
	if err := v.del(ctx, n, a); err != nil {
		return fmt.Errorf("cni del %s: %w", a.Key(), err)
	}
	return nil
}

func (v *Invoker) del(ctx context.Context, n *Network, a Attachment) error {
	if err := a.validate(); err != nil {
		return err
	}
	leave, err := v.enter(ctx, a.ContainerID)
	if err != nil {
		return err
	}
	defer leave()
	e, err := v.find(ctx, a.Key())
	if err != nil {
		return err
	}
	if e != nil {
		defer e.file.Close()
		return v.remove(ctx, e, n, a)
	}
	if n == nil {
		return nil
	}
	args, err := a.Capabilities.args()
	if err != nil {
		return err
	}
	a.NetNS = still(a.NetNS, "")
	return v.chain(n, a, args, execution{}).del(ctx, nil)
}

// Check asks each plugin whether the attachment is as ADD left it. It is an
// ErrNotAttached if no ADD is recorded, and an ErrNotSupported below CNI 0.4.0.
func (v *Invoker) Check(ctx context.Context, k Key) error {
	if err := v.check(ctx, k); err != nil {
		return fmt.Errorf("cni check %s: %w", k, err)
	}
	return nil
}

func (v *Invoker) check(ctx context.Context, k Key) error {
	leave, err := v.enter(ctx, k.ContainerID)
	if err != nil {
		return err
	}
	defer leave()
	e, err := v.find(ctx, k)
	if err != nil {
		return err
	}
	if e == nil {
		return ErrNotAttached
	}
	defer e.file.Close()
	switch r := e.record; {
	case r == nil || r.result == nil:
		return fmt.Errorf("%w: its ADD did not finish; DEL comes first", ErrNotAttached)
	case !r.network.atLeast("0.4.0"):
		return fmt.Errorf("CHECK of CNI %s: %w", r.network.Version, ErrNotSupported)
	case r.network.DisableCheck:
		return nil
	}
	return v.chain(e.record.network, e.record.attachment(), e.record.Capabilities, execution{file: e.file}).check(ctx, e.record.result)
}

// enter waits for the turn of a container, in this process and among others.
func (v *Invoker) enter(ctx context.Context, container string) (func(), error) {
	pass, err := v.containers.enter(ctx, container)
	if err != nil {
		return nil, fmt.Errorf("wait for the container's turn: %w", err)
	}
	leave, err := v.gate.shared(ctx)
	if err != nil {
		pass()
		return nil, fmt.Errorf("wait for GC: %w", err)
	}
	release, err := v.disk.Hold(ctx, together)
	if err != nil {
		leave()
		pass()
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return func() { release(); leave(); pass() }, nil
}

// execution is what plugins of an attachment run under; the zero value is without a
// record.
type execution struct {
	file  diskFile
	ready func() error
}

func (v *Invoker) chain(n *Network, a Attachment, args map[string]json.RawMessage, x execution) *chain {
	var inherit *os.File
	if x.file != nil {
		inherit = x.file.Inherit()
	}
	return &chain{cfg: &v.cfg, network: n, at: a, args: args, exec: v.exec(inherit, x.ready)}
}

// entry is an open record.
type entry struct {
	file          diskFile
	name, network string
	key           Key
	// record is nil if the file is damaged, for which damage is the reason.
	record *record
	damage error
	// busy is set if it is only half written yet.
	busy bool
}

// find opens the record of an attachment; nil means that there is none.
func (v *Invoker) find(ctx context.Context, k Key) (*entry, error) {
	names, err := v.disk.Names()
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	for _, name := range names {
		if key, _, ok := parseName(name); !ok || key != k {
			continue
		}
		e, err := v.open(ctx, name)
		if err != nil || e != nil {
			return e, err
		}
	}
	return nil, nil
}

// open opens a record; nil means that it is gone by now.
func (v *Invoker) open(ctx context.Context, name string) (*entry, error) {
	file, err := v.disk.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	data, err := file.Read()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("record: %w", err)
	}
	e := newEntry(name, data)
	e.file = file
	return e, nil
}

func newEntry(name string, data []byte) *entry {
	e := &entry{name: name}
	e.key, e.network, _ = parseName(name)
	e.record, e.damage = parseRecord(data)
	return e
}

// remove undoes what is recorded. A damaged record is undone with n, and with what
// a says, if they are of the same network.
func (v *Invoker) remove(ctx context.Context, e *entry, n *Network, a Attachment) error {
	if err := v.unmake(ctx, e, n, a); err != nil {
		return err
	}
	if err := v.disk.Remove(e.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

func (v *Invoker) unmake(ctx context.Context, e *entry, n *Network, a Attachment) error {
	if r := e.record; r != nil {
		c := v.chain(r.network, r.attachment(), r.Capabilities, execution{file: e.file})
		if r.result != nil {
			return c.del(ctx, r.result)
		}
		return c.undo(ctx, len(r.network.Plugins))
	}
	if lo := Loopback(); e.network == lo.Name {
		n = lo
	}
	if n == nil || n.Name != e.network {
		return fmt.Errorf("record %q is damaged (%w); undoing it takes the configuration of network %s, which is not the one in use", e.name, e.damage, e.network)
	}
	args, err := a.Capabilities.args()
	if err != nil {
		return err
	}
	a.NetNS = still(a.NetNS, "")
	return v.chain(n, a, args, execution{file: e.file}).undo(ctx, len(n.Plugins))
}

// attachment returns what ADD was about. The namespace is left out if it is gone.
func (r *record) attachment() Attachment {
	return Attachment{
		ContainerID: r.Attachment.ContainerID, IfName: r.Attachment.IfName,
		NetNS: still(r.NetNS, r.NetNSID), Args: r.Args,
	}
}
