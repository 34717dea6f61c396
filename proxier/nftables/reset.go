package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	nft "github.com/google/nftables"

	"github.com/nodekit-go/nodekit/proxier"
)

// Reset implements proxier.Backend. It builds a new generation beside what is
// there, in transactions of a few thousand elements, puts it in force in one,
// and removes the rest. Elements are never listed. A connection finds either
// the old generation or the new one, so that traffic is not interrupted.
func (b *Backend) Reset(ctx context.Context, s *proxier.State) error {
	b.inForce = false
	b.network, b.local = s.Network, b.cfg.Local.In(s.Network)
	if err := b.reset(ctx, s); err != nil {
		return fmt.Errorf("nftables: reset table %s to %d service ports: %w", b.cfg.Table, len(s.Ports), privileged(err))
	}
	b.inForce = true
	b.cfg.Degraded(b.lacking())
	return nil
}

func (b *Backend) reset(ctx context.Context, s *proxier.State) error {
	found, err := b.survey(ctx)
	if err != nil {
		return err
	}
	number := found.highest() + 1
	if b.building != 0 && b.sweep(ctx, found.of(b.building)) == nil {
		found.forget(b.building)
	}
	b.building = number
	b.watchers.hear(false)
	defer b.watchers.hear(true)
	if err := b.begin(ctx, number, found); err != nil {
		return fmt.Errorf("begin generation %d: %w", number, err)
	}
	cold := number == 1
	if cold {
		// Nothing is in force that could be interrupted: Services work as they come. What
		// refuses connections waits until all have come.
		if err := b.flip(ctx, number, func(t nft.ChainType) bool { return t == nft.ChainTypeNAT }); err != nil {
			return err
		}
	}
	if err := b.load(ctx, s); err != nil {
		return fmt.Errorf("load generation %d: %w", number, err)
	}
	b.watchers.hear(true) // from here on the generation is complete, and who changes it is heard
	if err := b.flip(ctx, number, func(nft.ChainType) bool { return true }); err != nil {
		return err
	}
	b.building = 0
	b.unswept = b.sweep(ctx, found) != nil
	return nil
}

// Sweep implements proxier.Sweeper: it removes old generations that the last Reset could
// not remove. Nothing left is not an error.
func (b *Backend) Sweep(ctx context.Context) error {
	if !b.unswept || !b.inForce {
		return nil // the next Reset takes along what is left
	}
	found, err := b.survey(ctx)
	if err == nil {
		for _, g := range b.generations {
			found.forget(g.number)
		}
		err = b.sweep(ctx, found)
	}
	if err != nil {
		return fmt.Errorf("nftables: remove old generations from table %s: %w", b.cfg.Table, err)
	}
	b.unswept = false
	return nil
}

// flip puts the generation that is being built in force.
func (b *Backend) flip(ctx context.Context, number int, admit func(nft.ChainType) bool) error {
	for _, f := range b.families {
		b.generations[f].flip(b.conn.nft, admit)
	}
	if err := b.flush(ctx); err != nil {
		return fmt.Errorf("put generation %d in force: %w", number, err)
	}
	return nil
}

// begin commits the objects of a new generation, without elements, in all families that the
// kernel has.
func (b *Backend) begin(ctx context.Context, number int, found survey) error {
	b.families = b.cfg.Families
	pinned := b.affinity
	err := b.beginAll(ctx, number, found)
	if !isNotFound(err) || len(b.families) == 1 {
		return err
	}
	usable, probeErr := b.usable(ctx)
	if probeErr != nil {
		return errors.Join(err, probeErr)
	}
	if len(usable) == 0 || len(usable) == len(b.families) {
		return err
	}
	b.families, b.affinity = usable, pinned
	return b.beginAll(ctx, number, found)
}

// beginAll is begin, in all families or in none.
func (b *Backend) beginAll(ctx context.Context, number int, found survey) error {
	c, err := b.connect()
	if err != nil {
		return err
	}
	if b.affinity != 0 && !found.hasAffinity(b.families, b.affinity) {
		b.affinity = 0
	}
	fresh := b.affinity == 0
	if fresh {
		b.affinity = number
	}
	b.generations = make(map[proxier.Family]*generation, len(b.families))
	for _, f := range b.families {
		p := program{
			assembler:     assembler{family: f, affinity: affinityName(b.affinity)},
			mark:          b.mark,
			local:         b.local,
			nodePortAddrs: b.nodePortAddrs(),
			serviceCIDRs:  b.network.ServiceCIDRs,
		}
		g := newGeneration(p, b.table(f), number)
		b.generations[f] = g
		g.addTable(c.nft)
		if fresh {
			if err := g.createAffinity(c.nft, b.affinitySize); err != nil {
				return err
			}
		}
		if err := g.create(c.nft); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// load commits the elements of s to the new generation. Endpoints that were in
// force keep their slots, and clients their pins.
func (b *Backend) load(ctx context.Context, s *proxier.State) error {
	entries := make(map[proxier.Key]*entry, len(s.Ports))
	b.refs = make(counts)
	batch := &batch{}
	for _, port := range byImportance(s.Ports) {
		if !b.programs(port) {
			continue
		}
		f := port.Key.Family
		e := b.newEntry(b.entries[port.Key], port)
		entries[port.Key] = e
		batch.change(f, view{}, render(e, b.policy(f)), b.refs)
		if batch.size() < transaction {
			continue
		}
		if err := b.commit(ctx, batch); err != nil {
			return err
		}
		batch.reset()
	}
	if err := b.commit(ctx, batch); err != nil {
		return err
	}
	b.entries = entries
	b.numbers.rebuild(maps.Values(entries))
	return nil
}

// byImportance returns the ports in the order in which to load them: first the API
// server, which all else on a node waits for, then DNS.
func byImportance(ports []*proxier.ServicePort) []*proxier.ServicePort {
	rank := func(p *proxier.ServicePort) int {
		const dns = 53
		switch {
		case p.Key.Namespace == "default" && p.Key.Name == "kubernetes":
			return 0
		case slices.ContainsFunc(p.Frontends, func(f proxier.Frontend) bool { return f.Port == dns }):
			return 1
		}
		return 2
	}
	out := slices.Clone(ports)
	slices.SortStableFunc(out, func(a, b *proxier.ServicePort) int { return rank(a) - rank(b) })
	return out
}

// survey is what the tables hold: the names of sets and chains per family and
// generation.
type survey map[proxier.Family]*names

type names struct {
	table  *nft.Table
	sets   map[int][]string
	chains map[int][]string
}

func (b *Backend) survey(ctx context.Context) (survey, error) {
	c, err := b.connect()
	if err != nil {
		return nil, err
	}
	out := make(survey, len(b.cfg.Families))
	for _, f := range b.cfg.Families {
		n := &names{table: b.table(f)}
		sets, err := c.names(ctx, n.table, dumpSets())
		if err == nil {
			var chains []string
			chains, err = c.names(ctx, n.table, dumpChains())
			n.sets, n.chains = byGeneration(sets), byGeneration(chains)
		}
		if err != nil {
			_ = b.hangUp()
			return nil, fmt.Errorf("list names in table %s of %s: %w", b.cfg.Table, f, err)
		}
		out[f] = n
	}
	return out, nil
}

func byGeneration(in []string) map[int][]string {
	out := make(map[int][]string)
	for _, name := range in {
		if n, ok := numberOf(name); ok {
			out[n] = append(out[n], name)
		}
	}
	return out
}

// highest returns the highest generation; 0 if there is none.
func (s survey) highest() int {
	top := 0
	for _, n := range s {
		for g := range n.sets {
			top = max(top, g)
		}
		for g := range n.chains {
			top = max(top, g)
		}
	}
	return top
}

// of returns what s holds of one generation.
func (s survey) of(number int) survey {
	out := make(survey, len(s))
	for f, n := range s {
		out[f] = &names{
			table:  n.table,
			sets:   map[int][]string{number: n.sets[number]},
			chains: map[int][]string{number: n.chains[number]},
		}
	}
	return out
}

// forget takes one generation out of s.
func (s survey) forget(number int) {
	for _, n := range s {
		delete(n.sets, number)
		delete(n.chains, number)
	}
}

func (s survey) hasAffinity(families []proxier.Family, generation int) bool {
	for _, f := range families {
		if !slices.Contains(s[f].sets[generation], affinityName(generation)) {
			return false
		}
	}
	return true
}

// sweep removes generations that are not in force. First it deletes the chains that a
// base chain may lead to: the kernel refuses that for a generation in force, in case an
// earlier Reset put it there without hearing of it. Then go rules and sets, which hold
// the other chains, then these. What cannot be removed yet is left for Sweep: before
// Linux 6.2 a deleted verdict lets go of its chain only some time after the transaction.
func (b *Backend) sweep(ctx context.Context, s survey) error {
	var entries, rules, sets, chains []func(*nft.Conn)
	for _, f := range b.cfg.Families {
		table := s[f].table
		for _, name := range flatten(s[f].chains) {
			ch := &nft.Chain{Table: table, Name: name}
			remove := func(c *nft.Conn) { c.DelChain(ch) }
			if isEntry(name) {
				entries = append(entries, remove)
				continue
			}
			rules = append(rules, func(c *nft.Conn) { c.FlushChain(ch) })
			chains = append(chains, remove)
		}
		for _, name := range flatten(s[f].sets) {
			if name != affinityName(b.affinity) {
				sets = append(sets, func(c *nft.Conn) { c.DelSet(&nft.Set{Table: table, Name: name}) })
			}
		}
	}
	for _, step := range [][]func(*nft.Conn){entries, append(rules, sets...), chains} {
		if err := b.inTransactions(ctx, step); err != nil {
			b.cfg.Log.Warn("an old generation is still there", "table", b.cfg.Table, "err", err)
			b.cfg.Unswept(err)
			return err
		}
	}
	return nil
}

// isEntry reports whether a chain of a generation is one that a base chain leads to.
func isEntry(name string) bool {
	_, name, _ = strings.Cut(name, "/")
	return slices.ContainsFunc(baseChains(), func(c baseChain) bool { return chain{kind: c.entry}.String() == name })
}

// inTransactions commits messages, in as many transactions as they need.
func (b *Backend) inTransactions(ctx context.Context, messages []func(*nft.Conn)) error {
	for part := range slices.Chunk(messages, transaction/messageWeight) {
		c, err := b.connect()
		if err != nil {
			return err
		}
		for _, add := range part {
			add(c.nft)
		}
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func flatten(m map[int][]string) []string {
	return slices.Concat(slices.Collect(maps.Values(m))...)
}
