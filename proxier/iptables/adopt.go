package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// Reset implements proxier.Backend. It lists what is there, once per family, and gives
// what differs to one iptables-restore: chains that are as they should be, whoever
// made them, are not touched, nor are chains of others. A ServicePort whose rules the
// kernel refuses is reported as a Problem, and the others are programmed.
func (b *Backend) Reset(ctx context.Context, st *proxier.State) error {
	b.inForce = false
	amiss, err := b.reset(ctx, st)
	if err != nil {
		return fmt.Errorf("iptables: reset to %d service ports: %w", len(st.Ports), err)
	}
	b.inForce = true
	b.degraded(amiss)
	return nil
}

// degraded tells what does not work though the rules are in force.
func (b *Backend) degraded(amiss error) {
	if b.cfg.Degraded != nil {
		b.cfg.Degraded(amiss)
	} else if amiss != nil {
		b.cfg.Log.Warn("the rules are in force, but something does not work", "err", amiss)
	}
}

// reset puts st in force, and returns what does not work though it is.
func (b *Backend) reset(ctx context.Context, st *proxier.State) (amiss, err error) {
	amiss, err = b.find(ctx)
	if err != nil {
		return nil, err
	}
	b.setNodeAddrs(st.Network)
	made, err := b.newRulesets(st.Network)
	if err != nil {
		return nil, err
	}
	b.rulesets = made
	ports, families := b.admitAll(st.Ports), b.families()
	refused := make([][]Problem, len(families))
	err = b.each(func(f proxier.Family) (Restore, error) {
		r, problems, err := b.resetFamily(ctx, f, ports[f])
		refused[slices.Index(families, f)] = problems
		r.Reset = true
		return r, err
	})
	b.refused = 0
	for _, problems := range refused {
		b.refused += len(problems)
		for _, p := range problems {
			b.report(p)
		}
	}
	if err != nil {
		return nil, err
	}
	b.watched.publish(b)
	if s := b.rulesets[proxier.IPv4]; s != nil && len(s.fixed.guard) > 0 {
		amiss = errors.Join(amiss, b.answerAtLocalhost())
	}
	return amiss, nil
}

// answerAtLocalhost sets route_localnet. The guard must be there.
func (b *Backend) answerAtLocalhost() error {
	if err := b.host.set(routeLocalnetParameter); err != nil {
		return fmt.Errorf("node ports do not answer at 127.0.0.1: %w", err)
	}
	return nil
}

// find finds the programs to use, the first time, and later those of families that were
// not there. It returns what keeps such a family from being programmed; an error if that
// is so for all.
func (b *Backend) find(ctx context.Context) (amiss, err error) {
	if len(b.programs) == len(b.cfg.Families) {
		return nil, nil
	}
	d := detector{b.exec}
	all, err := d.find(ctx, b.variant(), b.cfg.Families)
	if err != nil {
		return nil, fmt.Errorf("find iptables: %w", err)
	}
	usable := maps.Clone(b.programs)
	if usable == nil {
		usable = map[proxier.Family]programs{}
	}
	for _, f := range b.cfg.Families {
		if _, known := usable[f]; known {
			continue
		}
		switch err := d.try(ctx, all[f]); {
		case errors.Is(err, errUnusable), errors.Is(err, errPrivilege):
			amiss = errors.Join(amiss, fmt.Errorf("%s is not programmed: %w", f, err))
		case err != nil:
			return nil, fmt.Errorf("try iptables of %s: %w", f, err)
		default:
			usable[f] = all[f]
			b.cfg.Log.Info("iptables", "family", f, "variant", string(all[f].variant), "restore", all[f].restore)
		}
	}
	if len(usable) == 0 {
		return nil, amiss
	}
	b.programs = usable
	return amiss, nil
}

// families returns those that are programmed here.
func (b *Backend) families() []proxier.Family {
	return slices.DeleteFunc(slices.Clone(b.cfg.Families), func(f proxier.Family) bool {
		_, usable := b.programs[f]
		return !usable
	})
}

// maxRefused is how many ServicePorts are left out of a Reset for the others' sake.
const maxRefused = 8

// resetFamily resets one family. What is refused is tried a second time before it is left
// out: something may have come in between.
func (b *Backend) resetFamily(ctx context.Context, f proxier.Family, ports []*proxier.ServicePort) (Restore, []Problem, error) {
	var refused []Problem
	var suspect proxier.Key
	for tries := 1; ; tries++ {
		saved, err := b.save(ctx, f)
		if err != nil {
			return Restore{Family: f, Err: err}, refused, err
		}
		b.rulesets[f].reset(saved, ports)
		r, err := b.restore(ctx, f, b.rulesets[f])
		e, ok := errors.AsType[*RestoreError](err)
		if !ok || e.Key == (proxier.Key{}) || len(refused) == maxRefused || tries > 2*maxRefused {
			return r, refused, err
		}
		if e.Key != suspect {
			suspect = e.Key
			continue
		}
		refused = append(refused, Problem{Key: e.Key, Reason: e.Error()})
		ports = slices.DeleteFunc(slices.Clone(ports), func(p *proxier.ServicePort) bool { return p.Key == e.Key })
	}
}

// save lists the rules of a family.
func (b *Backend) save(ctx context.Context, f proxier.Family) (map[tableName]*savedTable, error) {
	c := Command{Name: b.programs[f].save}
	r, err := b.exec.Run(ctx, c)
	if err == nil && r.Status != 0 {
		err = commandError(c, r)
	}
	if err != nil {
		return nil, fmt.Errorf("list the rules of %s: %w", f, err)
	}
	return parseSave(r.Stdout), nil
}

func (b *Backend) setNodeAddrs(n proxier.Network) {
	b.nodeAddr = map[proxier.Family]netip.Addr{}
	for _, a := range n.NodeAddrs {
		if f := proxier.FamilyOf(a); !b.nodeAddr[f].IsValid() {
			b.nodeAddr[f] = a.Unmap()
		}
	}
}

// newRulesets makes a ruleset without ServicePorts for each family.
func (b *Backend) newRulesets(n proxier.Network) (map[proxier.Family]*ruleset, error) {
	liberal, err := b.host.isSet(liberalParameter)
	if err != nil {
		return nil, err
	}
	out := map[proxier.Family]*ruleset{}
	b.named = named{}
	for _, f := range b.families() {
		s := settings{family: f, mark: b.mark, liberal: liberal, countInvalid: b.counts(invalidCounter)}
		if err := b.placeNodePorts(&s, n); err != nil {
			return nil, err
		}
		out[f] = newRuleset(renderer{
			family: f, masqueradeAll: b.cfg.MasqueradeAll, pods: match(b.cfg.Local, f, n), nodeAddr: b.nodeAddr[f],
			countLocal: s.localNodePorts && b.counts(localNodePortCounter),
		}, s.fixed())
	}
	return out, nil
}

// counts makes a counter, and reports whether there is one.
func (b *Backend) counts(name string) bool {
	err := b.host.ensureCounter(name)
	if err != nil && !errors.Is(err, errNoCounters) {
		b.cfg.Log.Warn("packets are not counted", "counter", name, "err", err)
	}
	return err == nil
}

// placeNodePorts fills in where node ports of a family answer.
func (b *Backend) placeNodePorts(s *settings, n proxier.Network) error {
	within := b.nodePortPrefixes(s.family, n)
	s.everywhere = len(within) == 0 || slices.ContainsFunc(within, func(p netip.Prefix) bool { return p.Bits() == 0 })
	if s.family == proxier.IPv4 && b.cfg.LocalhostNodePorts {
		loopback := netip.MustParsePrefix(loopback4)
		s.localNodePorts = s.everywhere || slices.ContainsFunc(within, loopback.Overlaps)
	}
	if s.everywhere {
		return nil
	}
	all, err := b.host.addrs()
	if err != nil {
		return err
	}
	s.nodePorts = addrsIn(all, within)
	b.named.within = append(b.named.within, within...)
	b.named.addrs = addrsIn(all, b.named.within)
	return nil
}

// named are the addresses of the node that rules name: those of within that it has.
// Without within they name none.
type named struct {
	within []netip.Prefix
	addrs  []netip.Addr
}

func addrsIn(all []netip.Addr, within []netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		if slices.ContainsFunc(within, func(p netip.Prefix) bool { return p.Contains(a) }) {
			out = append(out, a)
		}
	}
	return out
}

// nodePortPrefixes returns where node ports of a family answer; none means everywhere.
func (b *Backend) nodePortPrefixes(f proxier.Family, n proxier.Network) []netip.Prefix {
	out := proxier.PrefixesOf(f, b.cfg.NodePortAddresses)
	for _, a := range n.NodeAddrs {
		if a = a.Unmap(); b.cfg.NodePortPrimary && proxier.FamilyOf(a) == f {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}
