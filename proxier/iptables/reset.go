package iptables

import (
	"bytes"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// reset fills the script with what has to be done for the kernel, which has saved, to
// have exactly ports. What it has already is left alone.
func (s *ruleset) reset(saved map[tableName]*savedTable, ports []*proxier.ServicePort) {
	s.script.reset()
	s.endpoints, s.total = 0, Rules{}
	clear(s.entries)
	for _, p := range ports {
		s.endpoints += endpointsOf(p)
	}
	wanted := make(map[string]bool)
	var shared [sharedChains]part
	for _, p := range ports {
		e := entry{port: p, terse: s.terse()}
		s.renderer.render(&s.after, p, e.terse)
		e.rules = s.after.counts()
		s.total = s.total.plus(e.rules)
		s.entries[p.Key] = e
		s.resetChains(saved[nat], p.Key, wanted)
		for _, r := range s.after.shared {
			shared[r.chain].own(p.Key)
			shared[r.chain].write(s.after.rule(r))
		}
	}
	for c := range shared {
		s.resetShared(saved[sharedChain(c).table()], sharedChain(c), &shared[c])
	}
	s.resetFixed(saved)
	s.resetStale(saved[nat], wanted)
}

// resetChains writes the chains of a ServicePort that are not as they should be.
func (s *ruleset) resetChains(saved *savedTable, k proxier.Key, wanted map[string]bool) {
	made, text := s.script.part(nat, chains), s.script.part(nat, rules)
	made.own(k)
	text.own(k)
	var name []byte
	for _, c := range s.after.chains {
		name = c.name.append(name[:0])
		have := saved.lookup(name)
		if have != nil {
			wanted[have.name] = true
			if bytes.Equal(have.text, s.after.rules(c)) {
				continue
			}
		}
		made.declare(name)
		text.write(s.after.rules(c))
	}
}

// resetShared writes a shared chain if it has other rules than it should, or its last
// ones elsewhere. The order of the others does not matter.
func (s *ruleset) resetShared(saved *savedTable, c sharedChain, want *part) {
	var tail []byte
	if c == natServices {
		tail = s.fixed.tail
		want.own(proxier.Key{})
		want.write(tail)
	}
	have := saved.chain(c.String())
	if have != nil && bytes.HasSuffix(have.text, tail) && sameLines(have.text, want.buf) {
		return
	}
	made := s.script.part(c.table(), chains)
	made.own(proxier.Key{})
	made.declare([]byte(c.String()))
	s.script.part(c.table(), rules).append(want)
}

// sameLines reports whether two texts have the same lines, in whatever order.
func sameLines(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) != len(b) {
		return false
	}
	return slices.EqualFunc(sortedLines(a), sortedLines(b), bytes.Equal)
}

func sortedLines(text []byte) [][]byte {
	return slices.SortedFunc(bytes.Lines(text), bytes.Compare)
}

// resetFixed writes what does not depend on ServicePorts and is not there.
func (s *ruleset) resetFixed(saved map[tableName]*savedTable) {
	for _, name := range tables() {
		s.script.part(name, chains).own(proxier.Key{})
		s.script.part(name, rules).own(proxier.Key{})
		s.script.part(name, inserts).own(proxier.Key{})
		if saved[name].chain(canaryChain) == nil {
			s.script.part(name, chains).declare([]byte(canaryChain))
		}
	}
	for _, c := range s.fixed.chains {
		if have := saved[c.table].chain(c.name); have == nil || !bytes.Equal(have.text, c.rules) {
			s.script.part(c.table, chains).declare([]byte(c.name))
			s.script.part(c.table, rules).write(c.rules)
		}
	}
	s.resetGuard(saved)
	s.resetJumps(saved, func(jump) bool { return true })
}

// resetGuard writes the guard into its chain, in which others have rules, too.
func (s *ruleset) resetGuard(saved map[tableName]*savedTable) {
	host := saved[filter].chain(hostFirewallChain)
	if host == nil {
		s.script.part(filter, chains).declare([]byte(hostFirewallChain))
	}
	if len(s.fixed.guard) > 0 && !host.has(s.fixed.guard) {
		s.script.part(filter, inserts).as('I', s.fixed.guard)
	}
}

// resetJumps writes those jumps of a kind that are not there.
func (s *ruleset) resetJumps(saved map[tableName]*savedTable, of func(jump) bool) {
	for _, j := range jumps() {
		if rule := j.append(nil); of(j) && !saved[j.table].chain(j.from).has(rule) {
			s.script.part(j.table, inserts).as('I', rule)
		}
	}
}

// resetStale removes chains of ServicePorts that are not there, whoever made them.
func (s *ruleset) resetStale(saved *savedTable, wanted map[string]bool) {
	if saved == nil {
		return
	}
	made, gone := s.script.part(nat, chains), s.script.part(nat, drops)
	made.own(proxier.Key{})
	gone.own(proxier.Key{})
	for _, c := range saved.chains {
		if hashed(c.name) && !wanted[c.name] {
			made.declare([]byte(c.name))
			gone.drop([]byte(c.name))
		}
	}
}
