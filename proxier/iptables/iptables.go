package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// Defaults of Config; those of kube-proxy, where it has such a field
// (https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/).
const (
	DefaultMasqueradeBit = 14
	DefaultCheckInterval = 30 * time.Second
	DefaultFullInterval  = time.Hour
	DefaultLockWait      = 30 * time.Second
)

// Config configures a Backend. The zero value works.
type Config struct {
	// NetNS is the path of the network namespace to program, such as
	// /run/netns/node. Empty means that of the process.
	NetNS string
	// Variant is the iptables to use; the zero value detects the one of the host.
	Variant Variant
	// Families are the families to program; empty means both. ServicePorts of
	// another family are reported to Problem.
	Families []proxier.Family
	// MasqueradeAll masquerades every connection to a cluster IP.
	MasqueradeAll bool
	// MasqueradeBit is the bit of the packet mark, 0 to 31, that tells packets to
	// masquerade on their way through the kernel. Nil means DefaultMasqueradeBit.
	MasqueradeBit *int
	// Local tells traffic of pods from that of others.
	Local Local
	// NodePortAddresses limit node ports to the node's addresses in one of these
	// prefixes, and NodePortPrimary to Network.NodeAddrs of the State; with both,
	// node ports answer at either. A family without any answers at all addresses of
	// the node.
	NodePortAddresses []netip.Prefix
	NodePortPrimary   bool
	// LocalhostNodePorts lets IPv4 node ports answer at 127.0.0.1, too, if
	// NodePortAddresses do not rule that out. It sets the kernel parameter
	// net.ipv4.conf.all.route_localnet, once a rule keeps others on the network away
	// from what listens there. That needs a writable /proc/sys: Prepare does it for a
	// later process that has none.
	LocalhostNodePorts bool
	// CheckInterval is how often Watch looks whether the rules are there, and
	// FullInterval how often it asks for a Reset although they are. 0 means
	// DefaultCheckInterval and DefaultFullInterval. With more than 1000 endpoints
	// there is no such Reset.
	CheckInterval, FullInterval time.Duration
	// LockWait is how long other programs may hold the lock of iptables before a call
	// fails. 0 means DefaultLockWait.
	LockWait time.Duration
	// Problem is called, from within Apply and Reset, for each thing that a
	// ServicePort asks for and does not get. Nil means that problems are logged
	// as warnings.
	Problem func(Problem)
	// Degraded is told, after each Reset that succeeded, what of Config does not work
	// on this host though the rules are in force: a family that the kernel or the
	// commands do not have, or route_localnet that cannot be set. Nil tells that
	// nothing is amiss. A nil function means that it is logged as a warning.
	Degraded func(error)
	// Observe is told of each iptables-restore of Apply and Reset. It is called by one
	// goroutine at a time. Nil is off.
	Observe func(Restore)
	// Exec runs the commands of iptables. Nil means those of the host, in NetNS.
	Exec Exec
	// Log receives what has no caller to go to; nil means none.
	Log *slog.Logger
}

// Problem says what is not programmed for a ServicePort, and why. The rest of
// it is in force.
type Problem struct {
	Key proxier.Key
	// Field is the field of the ServicePort; empty if it is all of it.
	Field string
	// Reason is a sentence for an operator.
	Reason string
}

// String returns the problem on one line.
func (p Problem) String() string {
	s := fmt.Sprintf("%s %s %s: ", p.Key.PortName, p.Key.Protocol, p.Key.Family)
	if p.Field != "" {
		s += p.Field + ": "
	}
	return s + p.Reason
}

// Restore is one iptables-restore, or the finding that none was needed.
type Restore struct {
	Family proxier.Family
	// Reset tells a Reset from an Apply.
	Reset bool
	// Total are the rules that the family has now, and Written those that were added.
	Total, Written Rules
	// Took is the time of the command.
	Took time.Duration
	// Err is what it failed with; often a *RestoreError.
	Err error
}

// Backend programs Services through iptables. It is used by one goroutine at a
// time, as proxier.Backend says; Watch, Counters and, once a Reset has succeeded,
// CleanOthers run beside.
type Backend struct {
	cfg  Config
	mark uint32
	exec Exec
	host host
	// inForce tells that the rulesets are what the kernel has.
	inForce  bool
	rulesets map[proxier.Family]*ruleset
	// programs are those of the families that this host has, from the first use on.
	programs map[proxier.Family]programs
	nodeAddr map[proxier.Family]netip.Addr // for source ranges
	named    named
	// refused is how many ServicePorts the last Reset has left out.
	refused int
	watched watched
	// turn has room for the family whose iptables-legacy-restore runs.
	turn chan struct{}
}

var _ proxier.Backend = (*Backend)(nil)

// New returns a Backend. It does not touch the kernel. An error names the field
// of cfg that is not valid.
func New(cfg Config) (*Backend, error) { return newWith(cfg, kernel{cfg.NetNS}) }

func newWith(cfg Config, h host) (*Backend, error) {
	bit := DefaultMasqueradeBit
	if cfg.MasqueradeBit != nil {
		bit = *cfg.MasqueradeBit
	}
	cfg.complete()
	if err := cfg.validate(bit); err != nil {
		return nil, fmt.Errorf("iptables: %w", err)
	}
	return &Backend{cfg: cfg, mark: 1 << bit, exec: cfg.Exec, host: h, turn: make(chan struct{}, 1)}, nil
}

func (c *Config) complete() {
	if len(c.Families) == 0 {
		c.Families = []proxier.Family{proxier.IPv4, proxier.IPv6}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.CheckInterval, DefaultCheckInterval}, {&c.FullInterval, DefaultFullInterval}, {&c.LockWait, DefaultLockWait},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Exec == nil {
		c.Exec = hostExec{netns: c.NetNS}
	}
	if c.Observe == nil {
		c.Observe = func(Restore) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate(bit int) error {
	if bit < 0 || bit > 31 {
		return fmt.Errorf("config: MasqueradeBit %d is not in 0…31", bit)
	}
	switch c.Variant {
	case Detect, NFT, Legacy:
	default:
		return fmt.Errorf("config: Variant %q is not %q, %q or empty", c.Variant, NFT, Legacy)
	}
	for i, f := range c.Families {
		if f != proxier.IPv4 && f != proxier.IPv6 {
			return fmt.Errorf("config: Families: %d is not a family", f)
		}
		if slices.Contains(c.Families[:i], f) {
			return fmt.Errorf("config: Families: %s stands there twice", f)
		}
	}
	for _, p := range c.NodePortAddresses {
		if !p.IsValid() {
			return fmt.Errorf("config: NodePortAddresses: invalid prefix %v", p)
		}
	}
	for name, d := range map[string]time.Duration{
		"CheckInterval": c.CheckInterval, "FullInterval": c.FullInterval, "LockWait": c.LockWait,
	} {
		if d < 0 {
			return fmt.Errorf("config: %s is %v: it must not be negative", name, d)
		}
	}
	return validateLocal(c.Local)
}

// errNotInForce is returned by Apply before the first Reset, and after an error.
var errNotInForce = errors.New("nothing is in force to change: call Reset first")

// Apply implements proxier.Backend. Nothing is listed; what is given to
// iptables-restore, once per family or, of iptables-legacy, per table, is proportional to
// the ServicePorts of d. Each table changes at once, filter before nat.
func (b *Backend) Apply(ctx context.Context, d proxier.Delta) error {
	if d.Empty() {
		return nil
	}
	err := errNotInForce
	if b.inForce {
		err = b.apply(ctx, d)
	}
	if err != nil {
		b.inForce = false
		return fmt.Errorf("iptables: apply %d changed and %d removed service ports: %w", len(d.Update), len(d.Remove), err)
	}
	return nil
}

func (b *Backend) apply(ctx context.Context, d proxier.Delta) error {
	parts := map[proxier.Family]*proxier.Delta{}
	for _, f := range b.families() {
		parts[f] = &proxier.Delta{}
	}
	for _, k := range d.Remove {
		if part := parts[k.Family]; part != nil {
			part.Remove = append(part.Remove, k)
		}
	}
	for _, p := range d.Update {
		part := parts[p.Key.Family]
		if admitted, ok := b.admit(p); ok {
			part.Update = append(part.Update, admitted)
		} else if part != nil {
			part.Remove = append(part.Remove, p.Key)
		}
	}
	return b.each(func(f proxier.Family) (Restore, error) {
		s := b.rulesets[f]
		if parts[f].Empty() {
			return Restore{}, nil
		}
		s.apply(*parts[f])
		return b.restore(ctx, f, s)
	})
}

// each calls f for all families at once, and tells what was restored.
func (b *Backend) each(f func(proxier.Family) (Restore, error)) error {
	families := b.families()
	done := make([]Restore, len(families))
	errs := make([]error, len(families))
	var wg sync.WaitGroup
	for i, family := range families {
		wg.Go(func() { done[i], errs[i] = f(family) })
	}
	wg.Wait()
	for _, r := range done {
		if r.Family != 0 {
			b.cfg.Observe(r)
		}
	}
	return errors.Join(errs...)
}

// report tells of a Problem.
func (b *Backend) report(p Problem) {
	if b.cfg.Problem != nil {
		b.cfg.Problem(p)
		return
	}
	b.cfg.Log.Warn("service port is not programmed in full",
		"service", p.Key.PortName.String(), "protocol", p.Key.Protocol.String(),
		"family", p.Key.Family.String(), "field", p.Field, "reason", p.Reason)
}
