package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// virtualServers is the kernel's IPVS.
type virtualServers interface {
	servers(ctx context.Context) ([]foundServer, error)
	targets(ctx context.Context, k serverKey) ([]foundTarget, error)
	do(ctx context.Context, ops []op) ([]error, error)
	setTimeouts(ctx context.Context, tcp, fin, udp time.Duration) error
	close() error
}

// addresses is the device for the addresses of Services.
type addresses interface {
	look(ctx context.Context) (deviceState, error)
	ensure(ctx context.Context) error
	claim(ctx context.Context) error
	bind(ctx context.Context, addrs []netip.Addr) error
	unbind(ctx context.Context, addrs []netip.Addr) error
	remove(ctx context.Context) error
	close() error
}

// ruleset is the tables of nf_tables.
type ruleset interface {
	reset(ctx context.Context, programs []program, elements []element) error
	apply(ctx context.Context, gone, come []element) error
	list(ctx context.Context, o object) ([]element, error)
	generation(ctx context.Context) (uint32, error)
	intact(ctx context.Context, programs []program) (bool, error)
	remove(ctx context.Context) error
	close() error
}

var (
	_ virtualServers = (*connection)(nil)
	_ addresses      = (*device)(nil)
	_ ruleset        = (*tables)(nil)
)

// kernel is all that the Backend programs, in one network namespace.
type kernel struct {
	ipvs   virtualServers
	device addresses
	rules  ruleset
}

func (k *kernel) close() error { return errors.Join(k.ipvs.close(), k.device.close(), k.rules.close()) }

// Backend programs Services into IPVS. It is used by one goroutine at a time, as
// proxier.Backend says; Watch alone runs beside. Close it when it is no longer needed.
type Backend struct {
	cfg Config
	// usable returns why the kernel cannot be programmed, open connects to it, and prepare
	// sets its parameters.
	usable  func() error
	open    func() (*kernel, error)
	prepare func() error
	// wake tells Watch that endpoints drain.
	wake chan struct{}

	// mu guards what follows. It is held while the kernel works: Watch removes endpoints
	// that have drained, which must not come between two messages about one of them.
	mu sync.Mutex
	// kernel is nil while there is no connection.
	kernel *kernel
	// inForce tells that the fields below are what the kernel has.
	inForce bool
	state   inForce
	// lost tells that Watch has found out that what is in force is not known any more, and
	// that no Reset came since.
	lost bool
}

// inForce is what the kernel has of a State.
type inForce struct {
	network proxier.Network
	at      surroundings
	ledger  *ledger
	fleet   fleet
	marks   *marks
	// schedulers says of those that were asked for whether the kernel has them.
	schedulers map[string]bool
	programs   []program
	// seen is the generation of nf_tables at which the tables were last found in order.
	seen uint32
}

var _ proxier.Backend = (*Backend)(nil)

// New returns a Backend. It does not touch the kernel. An error names the field of cfg
// that is not valid.
func New(cfg Config) (*Backend, error) {
	b, err := newWith(cfg, nil, nil)
	if err != nil {
		return nil, err
	}
	b.usable, b.open = checkKernel, b.dial
	b.prepare = func() error { return setParameters(b.cfg.NetNS, parameters(b.cfg.StrictARP)) }
	return b, nil
}

func newWith(cfg Config, open func() (*kernel, error), prepare func() error) (*Backend, error) {
	cfg.complete()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("ipvs: %w", err)
	}
	usable := func() error { return nil }
	return &Backend{cfg: cfg, usable: usable, open: open, prepare: prepare, wake: make(chan struct{}, 1)}, nil
}

// dial connects to the three interfaces of the kernel.
func (b *Backend) dial() (*kernel, error) {
	ipvs, err := dialIPVS(b.cfg.NetNS)
	if err != nil {
		return nil, err
	}
	return b.dialRest(ipvs)
}

// dialRest connects to what there is beside IPVS.
func (b *Backend) dialRest(ipvs virtualServers) (*kernel, error) {
	dev, err := dialDevice(b.cfg.NetNS, b.cfg.Device)
	if err != nil {
		return nil, errors.Join(err, ipvs.close())
	}
	return &kernel{ipvs, dev, &tables{netns: b.cfg.NetNS, name: b.cfg.Table, families: b.cfg.Families}}, nil
}

func (b *Backend) connectLocked() error {
	if b.kernel != nil {
		return nil
	}
	k, err := b.open()
	if err != nil {
		return err
	}
	b.kernel = k
	return nil
}

// hangUpLocked closes the connection: after an error answers may wait in it.
func (b *Backend) hangUpLocked() error {
	if b.kernel == nil {
		return nil
	}
	k := b.kernel
	b.kernel = nil
	return k.close()
}

// Close closes the connection to the kernel. What is in force stays so.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inForce, b.lost = false, false
	return b.hangUpLocked()
}

// errNotInForce is returned by Apply before the first Reset, and after an error.
var errNotInForce = errors.New("nothing is in force to change: call Reset first")

// Apply implements proxier.Backend. The work is proportional to the ServicePorts of d:
// nothing is listed, and others are not looked at. The table changes first, at once; then
// new endpoints come, before old ones go.
func (b *Backend) Apply(ctx context.Context, d proxier.Delta) error {
	if d.Empty() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.applyLocked(ctx, d); err != nil {
		b.inForce = false
		_ = b.hangUpLocked()
		return fmt.Errorf("ipvs: apply %d changed and %d removed service ports: %w", len(d.Update), len(d.Remove), privileged(err))
	}
	return nil
}

func (b *Backend) applyLocked(ctx context.Context, d proxier.Delta) error {
	if !b.inForce {
		return errNotInForce
	}
	c := newChanges()
	for _, k := range d.Remove {
		b.state.ledger.replace(c, k, nil, view{})
		b.state.marks.release(k)
	}
	for _, p := range d.Update {
		if old := b.state.ledger.entries[p.Key].port; old.Equal(p) {
			continue
		}
		if err := b.enterLocked(ctx, c, p); err != nil {
			return err
		}
	}
	if err := b.commitLocked(ctx, c); err != nil {
		return err
	}
	b.state.marks.free()
	return nil
}

// enterLocked puts a ServicePort into the ledger.
func (b *Backend) enterLocked(ctx context.Context, c *changes, p *proxier.ServicePort) error {
	s := &b.state
	admitted := admit(p, b.cfg.Families, s.network.NodeAddrs, b.report)
	if admitted == nil {
		s.ledger.replace(c, p.Key, nil, view{})
		s.marks.release(p.Key)
		return nil
	}
	scheduler, err := b.schedulerLocked(ctx, admitted)
	if err != nil {
		return err
	}
	mark := uint32(0)
	if usesShortcut(admitted) {
		var ok bool
		if mark, ok = s.marks.get(p.Key); !ok {
			b.report(Problem{p.Key, "ExternalLocal", "connections of this node and its pods use local endpoints alone: " +
				"more ServicePorts have externalTrafficPolicy Local than there are marks"})
		}
	} else {
		s.marks.release(p.Key)
	}
	s.ledger.replace(c, p.Key, p, render(admitted, s.at, scheduler, mark))
	return nil
}

// commitLocked makes changes. What a packet is decided by changes first, in one
// transaction; addresses come when virtual servers are there.
func (b *Backend) commitLocked(ctx context.Context, c *changes) error {
	s := &b.state
	gone, come := c.elements(s.ledger)
	do := steps{bind: serviceAddrs(come), unbind: serviceAddrs(gone)}
	gone, do.disown = splitOwned(gone)
	if err := b.kernel.rules.apply(ctx, gone, come); err != nil {
		return err
	}
	before := s.seen
	for _, k := range c.keys() {
		switch want := c.servers[k]; {
		case want != nil:
			do.ops = append(do.ops, s.fleet.plan(k, want)...)
		case contains(b.cfg.ExcludeCIDRs, k.at.Addr()):
			delete(s.fleet, k) // it stays, and is nobody's from now on
		default:
			do.last = append(do.last, s.fleet.plan(k, nil)...)
		}
	}
	if err := b.carryOutLocked(ctx, do); err != nil {
		return err
	}
	b.followLocked(ctx, before, transactions(slices.Concat(gone, come), do.disown))
	return nil
}

// splitOwned takes the elements of owned out of others.
func splitOwned(elements []element) (others, ours []element) {
	for _, e := range elements {
		if e.in == owned {
			ours = append(ours, e)
		} else {
			others = append(others, e)
		}
	}
	return others, ours
}

// steps are what follows the change of the rules, in the order in which it is done.
type steps struct {
	// ops make virtual servers what they are to be, and last removes others.
	ops    []op
	bind   []netip.Addr
	last   []op
	disown []element
	unbind []netip.Addr
	// claim takes the device over, from kube-proxy say.
	claim bool
}

// carryOutLocked makes steps. What the kernel refuses of the first ones does not keep the
// rest. By the last ones a virtual server is known to be the Backend's: nothing of these is
// done before all are gone that are to go.
func (b *Backend) carryOutLocked(ctx context.Context, do steps) error {
	refused, err := b.executeLocked(ctx, do.ops)
	if err != nil {
		return errors.Join(refused, err)
	}
	unbound := b.kernel.device.bind(ctx, do.bind)
	kept, err := b.executeLocked(ctx, do.last)
	errs := []error{refused, unbound, kept, err}
	if kept != nil || err != nil {
		return errors.Join(errs...)
	}
	errs = append(errs, b.kernel.rules.apply(ctx, do.disown, nil))
	if unbound == nil { // else answers may wait in the socket of the device
		errs = append(errs, b.kernel.device.unbind(ctx, do.unbind))
		if do.claim {
			errs = append(errs, b.kernel.device.claim(ctx))
		}
	}
	return errors.Join(errs...)
}

// serviceAddrs returns the addresses of Services among elements.
func serviceAddrs(elements []element) []netip.Addr {
	var out []netip.Addr
	for _, e := range elements {
		if e.in == serviceIPs {
			out = append(out, e.at.Addr())
		}
	}
	return out
}

// executeLocked has the kernel carry out operations. One that fails does not keep the
// others; refused joins what went wrong with them. After err nothing can be done by this
// connection any more.
func (b *Backend) executeLocked(ctx context.Context, ops []op) (refused, err error) {
	if len(ops) == 0 {
		return nil, nil
	}
	answers, err := b.kernel.ipvs.do(ctx, ops)
	var errs []error
	now := time.Now()
	var again []op
	drain := false
	for i, answer := range answers {
		o := ops[i]
		switch {
		case answer == nil || o.kind.removes() && isGone(answer):
			b.state.fleet.done(o, now)
			drain = drain || o.kind == setTarget && o.target.weight == 0
		case errors.Is(answer, unix.EEXIST) && (o.kind == addServer || o.kind == addTarget):
			o.kind++ // somebody else made it
			again = append(again, o)
		default:
			errs = append(errs, fmt.Errorf("%s: %w", o, answer))
		}
	}
	if drain {
		b.wakeUp()
	}
	if err == nil {
		var more error
		more, err = b.executeLocked(ctx, again)
		errs = append(errs, more)
	}
	return errors.Join(errs...), err
}

func (k opKind) removes() bool { return k == deleteServer || k == deleteTarget }

// isGone reports that a virtual server or real server is not there.
func isGone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

func (b *Backend) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// schedulerLocked returns the scheduler of a ServicePort: the one it names if the kernel
// has it.
func (b *Backend) schedulerLocked(ctx context.Context, p *proxier.ServicePort) (string, error) {
	name := p.Balance.Scheduler
	if name == "" || name == b.cfg.Scheduler {
		return b.cfg.Scheduler, nil
	}
	err := checkScheduler(name)
	if err == nil {
		var has bool
		if has, err = b.hasSchedulerLocked(ctx, name); has {
			return name, nil
		} else if err != nil {
			return "", err
		}
		err = fmt.Errorf("the kernel has no scheduler %s: load the module ip_vs_%s", name, name)
	}
	b.report(Problem{p.Key, "Balance.Scheduler", fmt.Sprintf("%v; %s is used", err, b.cfg.Scheduler)})
	return b.cfg.Scheduler, nil
}

// hasSchedulerLocked asks the kernel once for each scheduler, by a virtual server that gets
// no packets. The kernel loads the scheduler's module for it, if it can.
func (b *Backend) hasSchedulerLocked(ctx context.Context, name string) (bool, error) {
	if has, known := b.state.schedulers[name]; known {
		return has, nil
	}
	probe := op{
		kind: addServer, settings: settings{scheduler: name},
		server: serverKey{family: b.cfg.Families[0], mark: newMarks(b.cfg.Marks).probe()},
	}
	remove := op{kind: deleteServer, server: probe.server}
	answers, err := b.kernel.ipvs.do(ctx, []op{remove, probe, remove})
	switch {
	case err != nil:
	case answers[1] == nil, errors.Is(answers[1], unix.ENOENT):
		b.state.schedulers[name] = answers[1] == nil
		return answers[1] == nil, nil
	default:
		err = answers[1]
	}
	return false, fmt.Errorf("try the scheduler %s: %w", name, err)
}

func (b *Backend) report(p Problem) {
	if b.cfg.Problem != nil {
		b.cfg.Problem(p)
		return
	}
	b.cfg.Log.Warn("service port is not programmed in full",
		"service", p.Key.PortName.String(), "protocol", p.Key.Protocol.String(),
		"family", p.Key.Family.String(), "field", p.Field, "reason", p.Reason)
}

// privileged adds to an error what a process without privilege needs.
func privileged(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: CAP_NET_ADMIN in the network namespace is needed", err)
	}
	return err
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
