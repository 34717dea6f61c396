package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// Reset implements proxier.Backend. It lists what the kernel has and changes what differs:
// virtual servers that are right stay as they are, with their connections, and so do those
// of somebody else. The tables are replaced, in one transaction.
func (b *Backend) Reset(ctx context.Context, s *proxier.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inForce, b.lost = false, false
	if err := b.resetLocked(ctx, s); err != nil {
		_ = b.hangUpLocked()
		return fmt.Errorf("ipvs: reset to %d service ports: %w", len(s.Ports), privileged(err))
	}
	b.inForce = true
	return nil
}

func (b *Backend) resetLocked(ctx context.Context, s *proxier.State) error {
	if err := b.usable(); err != nil {
		return err
	}
	if err := b.connectLocked(); err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		return err
	}
	found, err := b.surveyLocked(ctx)
	if err != nil {
		return err
	}
	b.begin(s, found)
	if has, err := b.hasSchedulerLocked(ctx, b.cfg.Scheduler); err != nil || !has {
		return errors.Join(err, fmt.Errorf("the kernel has no scheduler %s: load the module ip_vs_%[1]s", b.cfg.Scheduler))
	}
	c := newChanges()
	for _, p := range s.Ports {
		if err := b.enterLocked(ctx, c, p); err != nil {
			return err
		}
	}
	_, elements := c.elements(b.state.ledger)
	surplus := b.surplus(c, found)
	all := slices.SortedFunc(slices.Values(slices.Concat(elements, surplus)), element.compare)
	before, _ := b.kernel.rules.generation(ctx) // the next check asks for everything where it is not told
	if err := b.kernel.rules.reset(ctx, b.state.programs, all); err != nil {
		return err
	}
	if err := b.kernel.device.ensure(ctx); err != nil {
		return err
	}
	do := steps{disown: surplus, claim: !found.device.ours}
	if do.ops, do.last, err = b.adoptLocked(ctx, c, found); err != nil {
		return err
	}
	want := serviceAddrs(elements)
	slices.SortFunc(want, netip.Addr.Compare)
	do.bind = slices.DeleteFunc(slices.Clone(want), func(a netip.Addr) bool { return has(found.device.bound, a) })
	do.unbind = slices.DeleteFunc(slices.Clone(found.device.bound), func(a netip.Addr) bool { return has(want, a) })
	if err := b.carryOutLocked(ctx, do); err != nil {
		return err
	}
	b.state.marks.free()
	b.followLocked(ctx, before, 1+transactions(surplus))
	if t := b.cfg.Timeouts; t != (Timeouts{}) {
		return b.kernel.ipvs.setTimeouts(ctx, t.TCP, t.TCPFin, t.UDP)
	}
	return nil
}

// surplus returns the elements of owned for virtual servers that are registered and not
// wanted any more: they stay registered until they are gone.
func (b *Backend) surplus(c *changes, found survey) []element {
	var out []element
	for _, s := range found.servers {
		_, registered := found.registry[s.key]
		if registered && c.servers[s.key] == nil && b.owns(s.key, found) && !has(found.device.bound, s.key.at.Addr()) &&
			s.key.mark == 0 && slices.Contains(b.cfg.Families, s.key.family) {
			out = append(out, element{in: owned, family: s.key.family, at: s.key.at, proto: s.key.proto})
		}
	}
	return out
}

// survey is what the kernel has before a Reset.
type survey struct {
	device  deviceState
	servers []foundServer
	// registry are the fronts that are no addresses of the device, and those with marks, as
	// the tables have them, whoever entered them, and what this Backend remembers to have
	// made: by it the Backend knows its own virtual servers.
	registry map[serverKey]uint32
}

func (b *Backend) surveyLocked(ctx context.Context) (survey, error) {
	found := survey{registry: map[serverKey]uint32{}}
	var err error
	if found.device, err = b.kernel.device.look(ctx); err != nil {
		return found, err
	}
	if found.servers, err = b.kernel.ipvs.servers(ctx); err != nil {
		return found, err
	}
	slices.SortFunc(found.servers, func(a, b foundServer) int { return a.key.compare(b.key) })
	for k := range b.state.fleet {
		found.registry[k] = 0
	}
	// The tables of earlier versions have no object of its own for this.
	for _, o := range []object{owned, atNode, externalLocal} {
		elements, err := b.kernel.rules.list(ctx, o)
		if err != nil {
			return found, err
		}
		for _, e := range elements {
			found.registry[serverKey{family: e.family, proto: e.proto, at: e.at}] = e.mark
		}
	}
	return found, nil
}

// owns reports whether a virtual server is the Backend's. Kube-proxy leaves no trace of
// those for node ports, but it leaves the device, and no virtual server that is not its
// own.
func (b *Backend) owns(k serverKey, found survey) bool {
	if k.mark != 0 {
		return newMarks(b.cfg.Marks).covers(k.mark)
	}
	a := k.at.Addr()
	if contains(b.cfg.ExcludeCIDRs, a) {
		return false
	}
	_, registered := found.registry[k]
	return registered || has(found.device.bound, a) ||
		found.device.exists && !found.device.ours && has(found.device.elsewhere, a)
}

// has reports whether a sorted list has an address.
func has(sorted []netip.Addr, a netip.Addr) bool {
	_, ok := slices.BinarySearchFunc(sorted, a, netip.Addr.Compare)
	return ok
}

// begin starts with an empty ledger. ServicePorts keep the marks that they have, or had in
// an earlier process. The fleet stays what it was until it is known what became of it.
func (b *Backend) begin(s *proxier.State, found survey) {
	old := b.state.marks
	b.state = inForce{
		network: s.Network, at: b.surroundings(s.Network, found.device), ledger: newLedger(), fleet: b.state.fleet,
		marks: newMarks(b.cfg.Marks), schedulers: map[string]bool{}, programs: b.programs(s.Network),
	}
	for _, p := range s.Ports {
		if !usesShortcut(p) {
			continue
		}
		if old != nil {
			b.state.marks.wish(p.Key, old.of[p.Key])
		}
		for _, f := range p.Frontends {
			for _, a := range b.state.at.addrs(f) {
				at := netip.AddrPortFrom(a, f.Port)
				b.state.marks.wish(p.Key, found.registry[serverKey{family: p.Key.Family, proto: p.Key.Protocol, at: at}])
			}
		}
	}
	for _, s := range found.servers {
		b.state.marks.reserve(s.key.mark)
	}
}

// surroundings returns where node ports answer, and which addresses are not to be bound.
func (b *Backend) surroundings(n proxier.Network, d deviceState) surroundings {
	s := surroundings{elsewhere: make(map[netip.Addr]bool, len(d.elsewhere))}
	for _, a := range d.elsewhere {
		s.elsewhere[a] = true
		if b.answersNodePorts(a, n) {
			s.nodePorts = append(s.nodePorts, a)
		}
	}
	return s
}

func (b *Backend) answersNodePorts(a netip.Addr, n proxier.Network) bool {
	f := proxier.FamilyOf(a)
	if a.IsLoopback() || a.IsLinkLocalUnicast() || !slices.Contains(b.cfg.Families, f) {
		return false
	}
	prefixes := proxier.PrefixesOf(f, b.cfg.NodePortAddresses)
	limited := len(prefixes) > 0
	if b.cfg.NodePortPrimary {
		for _, own := range n.NodeAddrs {
			if own = own.Unmap(); proxier.FamilyOf(own) == f {
				limited = true
				prefixes = append(prefixes, netip.PrefixFrom(own, own.BitLen()))
			}
		}
	}
	return !limited || contains(prefixes, a)
}

// programs returns the rules of each family.
func (b *Backend) programs(n proxier.Network) []program {
	var out []program
	for _, f := range b.cfg.Families {
		out = append(out, program{
			family: f, masquerade: 1 << *b.cfg.MasqueradeBit, shortcuts: uint32(b.cfg.Marks) << 16,
			masqueradeAll: b.cfg.MasqueradeAll, local: b.cfg.Local.In(n), serviceCIDRs: n.ServiceCIDRs,
		})
	}
	return out
}

// adoptLocked takes over virtual servers that are there and wanted, and returns what makes
// all of them right, and then what removes the rest.
func (b *Backend) adoptLocked(ctx context.Context, c *changes, found survey) (ops, last []op, err error) {
	now := fleet{}
	for _, server := range found.servers {
		want := c.servers[server.key]
		if want == nil {
			if b.owns(server.key, found) {
				now[server.key] = &held{settings: server.settings}
				last = append(last, op{kind: deleteServer, server: server.key})
			}
			continue
		}
		targets, err := b.kernel.ipvs.targets(ctx, server.key)
		if err != nil {
			return nil, nil, err
		}
		now.adopt(server, targets, b.state.fleet[server.key], time.Now())
		now[server.key].datagrams = want.datagrams
		last = append(last, idle(server.key, want, targets)...)
	}
	for _, k := range c.keys() {
		if want := c.servers[k]; want != nil {
			ops = append(ops, now.plan(k, want)...)
		}
	}
	b.state.fleet = now
	if len(now.draining()) > 0 {
		b.wakeUp()
	}
	return ops, last, nil
}

// idle returns what removes targets that are not wanted, have drained and have no connections. One
// that weighs something gets new ones meanwhile: it drains first.
func idle(k serverKey, want *virtual, found []foundTarget) []op {
	wanted := make(map[netip.AddrPort]bool, len(want.targets))
	for _, t := range want.targets {
		wanted[t.at] = true
	}
	var ops []op
	for _, t := range found {
		if t.weight == 0 && t.connections == 0 && !wanted[t.at] {
			ops = append(ops, op{kind: deleteTarget, server: k, target: target{at: t.at}})
		}
	}
	return ops
}

// Cleanup implements proxier.Backend: it removes the Backend's virtual servers, the device
// and the tables. Virtual servers of others stay, and all those in Config.ExcludeCIDRs. A
// kernel without IPVS, or without nf_tables, is not an error: it has none. Nor is one that is
// too old for Reset: kube-proxy may have been there.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inForce, b.lost = false, false
	if err := errors.Join(b.cleanupLocked(ctx), b.hangUpLocked()); err != nil {
		return fmt.Errorf("ipvs: clean up: %w", privileged(err))
	}
	return nil
}

func (b *Backend) cleanupLocked(ctx context.Context) error {
	err := b.connectLocked()
	if errors.Is(err, errNoIPVS) {
		b.kernel, err = b.dialRest(noServers{})
	}
	if err != nil {
		return err
	}
	found, err := b.surveyLocked(ctx)
	if err != nil {
		return err
	}
	b.state = inForce{fleet: b.state.fleet}
	var ops []op
	for _, s := range found.servers {
		if b.owns(s.key, found) {
			ops = append(ops, op{kind: deleteServer, server: s.key})
		}
	}
	// The tables know which virtual servers are the Backend's: they go last.
	if err := errors.Join(b.executeLocked(ctx, ops)); err != nil {
		return err
	}
	if err := b.kernel.device.remove(ctx); err != nil {
		return err
	}
	b.state = inForce{}
	return b.kernel.rules.remove(ctx)
}

// fleetKeys returns the keys of a fleet, sorted.
func (f fleet) keys() []serverKey { return slices.SortedFunc(maps.Keys(f), serverKey.compare) }
