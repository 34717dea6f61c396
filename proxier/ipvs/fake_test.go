package ipvs

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeKernel is a kernel in memory: what it refuses the real one refuses, too, as the table
// of TestVirtualServers shows. Calls that a Backend must not make fail the test.
type fakeKernel struct {
	tb testing.TB
	// schedulers are those that it has.
	schedulers []string
	virtual    map[serverKey]*fakeServer
	timeouts   [3]time.Duration
	// ops are the operations since the last call of taken.
	ops []op
	// fail returns the answer to an operation, nil to carry it out.
	fail func(op) error
	// broken is the error of listings, and unreachable that of who connects; open is how many
	// connections there are, and dialed how many there were.
	broken, unreachable error
	open, dialed        int

	device fakeDevice
	rules  fakeRules
}

type fakeServer struct {
	settings
	targets map[netip.AddrPort]*foundTarget
}

func newFakeKernel(tb testing.TB) *fakeKernel {
	tb.Helper()
	k := &fakeKernel{
		tb: tb, virtual: map[serverKey]*fakeServer{},
		schedulers: []string{"rr", "wrr", "lc", "wlc", "sh", "dh", "sed", "nq", "mh", "lblc", "lblcr", "fo", "ovf"},
	}
	k.rules.elements, k.rules.number = map[element]bool{}, 1
	return k
}

// backend returns a Backend of the kernel, as a process that starts.
func (k *fakeKernel) backend(cfg Config) *Backend {
	k.tb.Helper()
	if cfg.Problem == nil {
		cfg.Problem = func(p Problem) { k.tb.Errorf("problem: %s", p) }
	}
	b, err := newWith(cfg, k.dial, func() error { return nil })
	if err != nil {
		k.tb.Fatal(err)
	}
	return b
}

func (k *fakeKernel) dial() (*kernel, error) {
	if k.unreachable != nil {
		return nil, k.unreachable
	}
	k.open++
	k.dialed++
	return &kernel{k, &k.device, &k.rules}, nil
}

// taken returns the operations on virtual servers since the last call, as text, but the
// probes of schedulers.
func (k *fakeKernel) taken() []string {
	out := []string{}
	for _, o := range k.ops {
		if o.server.mark&0xffff != 0xffff {
			out = append(out, o.String())
		}
	}
	k.ops = nil
	return out
}

// lines returns the virtual servers with their real servers, sorted, as text.
func (k *fakeKernel) lines() []string {
	out := []string{}
	for key, v := range k.virtual {
		s := fmt.Sprintf("%s %s", key, v.scheduler)
		if v.flags&flagPersistent != 0 {
			s += fmt.Sprintf(" persistent %d", v.timeout)
		}
		for _, at := range slices.SortedFunc(maps.Keys(v.targets), netip.AddrPort.Compare) {
			s += fmt.Sprintf(" %s=%d", at, v.targets[at].weight)
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

func (k *fakeKernel) servers(context.Context) ([]foundServer, error) {
	if k.broken != nil {
		return nil, k.broken
	}
	var out []foundServer
	for key, v := range k.virtual {
		out = append(out, foundServer{key, v.settings})
	}
	return out, nil
}

func (k *fakeKernel) targets(_ context.Context, key serverKey) ([]foundTarget, error) {
	if k.broken != nil {
		return nil, k.broken
	}
	v := k.virtual[key]
	if v == nil {
		return nil, nil // as the kernel does, for a list
	}
	var out []foundTarget
	for _, t := range v.targets {
		out = append(out, *t)
	}
	return out, nil
}

func (k *fakeKernel) do(ctx context.Context, ops []op) ([]error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out []error
	for _, o := range ops {
		k.ops = append(k.ops, o)
		if k.fail != nil {
			if err := k.fail(o); err != nil {
				out = append(out, err)
				continue
			}
		}
		out = append(out, k.carryOut(o))
	}
	return out, nil
}

func (k *fakeKernel) carryOut(o op) error {
	v := k.virtual[o.server]
	if v == nil && o.kind != addServer {
		return unix.ESRCH
	}
	switch o.kind {
	case addServer:
		if v != nil {
			return unix.EEXIST
		}
		if !slices.Contains(k.schedulers, o.scheduler) {
			return unix.ENOENT
		}
		k.virtual[o.server] = &fakeServer{settings: o.settings, targets: map[netip.AddrPort]*foundTarget{}}
	case setServer:
		if !slices.Contains(k.schedulers, o.scheduler) {
			return unix.ENOENT
		}
		v.settings = o.settings
	case deleteServer:
		delete(k.virtual, o.server)
	default:
		return v.carryOut(o)
	}
	return nil
}

func (v *fakeServer) carryOut(o op) error {
	t := v.targets[o.target.at]
	switch {
	case o.kind == addTarget && t != nil:
		return unix.EEXIST
	case o.kind != addTarget && t == nil:
		return unix.ENOENT
	case o.kind == addTarget:
		v.targets[o.target.at] = &foundTarget{target: o.target, masquerades: true}
	case o.kind == setTarget:
		t.weight, t.masquerades = o.target.weight, true
	default:
		delete(v.targets, o.target.at)
	}
	return nil
}

func (k *fakeKernel) setTimeouts(_ context.Context, tcp, fin, udp time.Duration) error {
	for i, d := range []time.Duration{tcp, fin, udp} {
		if d != 0 {
			k.timeouts[i] = d
		}
	}
	return nil
}

func (k *fakeKernel) close() error {
	k.open--
	return nil
}

// connections sets how many a real server has.
func (k *fakeKernel) connections(key serverKey, at string, n uint64) {
	k.tb.Helper()
	t := k.virtual[key].targets[netip.MustParseAddrPort(at)]
	if t == nil {
		k.tb.Fatalf("%s has no real server %s", key, at)
	}
	t.connections = n
}

// fakeDevice is the device, among other devices of the node.
type fakeDevice struct {
	state deviceState
	// log has what was bound and unbound, in order.
	log []string
}

func (d *fakeDevice) look(context.Context) (deviceState, error) {
	s := d.state
	s.bound, s.elsewhere = slices.Clone(s.bound), slices.Clone(s.elsewhere)
	return s, nil
}

func (d *fakeDevice) ensure(context.Context) error {
	if !d.state.exists {
		d.state.exists, d.state.ours = true, true
	}
	return nil
}

func (d *fakeDevice) claim(context.Context) error {
	if !d.state.exists {
		return unix.ENODEV
	}
	d.state.ours = true
	return nil
}

func (d *fakeDevice) bind(_ context.Context, addrs []netip.Addr) error {
	if len(addrs) > 0 && !d.state.exists {
		return unix.ENODEV
	}
	for _, a := range addrs {
		d.log = append(d.log, "+"+a.String())
		d.state.bound = append(d.state.bound, a)
	}
	slices.SortFunc(d.state.bound, netip.Addr.Compare)
	d.state.bound = slices.Compact(d.state.bound)
	return nil
}

func (d *fakeDevice) unbind(_ context.Context, addrs []netip.Addr) error {
	for _, a := range addrs {
		d.log = append(d.log, "-"+a.String())
		d.state.bound = slices.DeleteFunc(d.state.bound, func(o netip.Addr) bool { return o == a })
	}
	return nil
}

func (d *fakeDevice) remove(context.Context) error {
	d.state.exists, d.state.ours, d.state.bound = false, false, nil
	return nil
}

func (d *fakeDevice) close() error { return nil }

// fakeRules are the tables. As the kernel does, they refuse an element that is there with
// another value, and one to delete that is not there.
type fakeRules struct {
	there    bool
	elements map[element]bool
	programs []program
	number   uint32
	changed  int // by apply
	listed   int // calls of list
	fail     error
}

func (r *fakeRules) reset(_ context.Context, programs []program, elements []element) error {
	if r.fail != nil {
		return r.fail
	}
	r.there, r.programs = true, programs
	clear(r.elements)
	r.number++
	return r.add(elements)
}

func (r *fakeRules) add(elements []element) error {
	for _, e := range elements {
		for o := range r.elements {
			value := o.mark
			if o.mark = e.mark; o == e && value != e.mark {
				return unix.EEXIST
			}
		}
		r.elements[e] = true
	}
	return nil
}

func (r *fakeRules) apply(_ context.Context, gone, come []element) error {
	if r.fail != nil {
		return r.fail
	}
	if len(gone)+len(come) > 0 {
		r.number++
	}
	r.changed += len(gone) + len(come)
	for _, e := range gone {
		if !r.elements[e] {
			return fmt.Errorf("delete %s: %w", e, unix.ENOENT)
		}
		delete(r.elements, e)
	}
	return r.add(come)
}

func (r *fakeRules) list(_ context.Context, o object) ([]element, error) {
	r.listed++
	var out []element
	for e := range r.elements {
		if e.in == o {
			out = append(out, e)
		}
	}
	return out, nil
}

func (r *fakeRules) generation(context.Context) (uint32, error) { return r.number, nil }

func (r *fakeRules) intact(context.Context, []program) (bool, error) { return r.there, nil }

func (r *fakeRules) remove(context.Context) error {
	r.there = false
	clear(r.elements)
	return nil
}

func (r *fakeRules) close() error { return nil }
