package iptables

import (
	"bytes"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// Rules counts rules by table.
type Rules struct {
	NAT, Filter int
}

func (r *Rules) add(table tableName, n int) {
	switch table {
	case nat:
		r.NAT += n
	case filter:
		r.Filter += n
	}
}

func (r Rules) plus(o Rules) Rules  { return Rules{r.NAT + o.NAT, r.Filter + o.Filter} }
func (r Rules) minus(o Rules) Rules { return Rules{r.NAT - o.NAT, r.Filter - o.Filter} }

// manyEndpoints is from where on rules of endpoints have no comment: these are most of
// the text (largeClusterEndpointsThreshold of kube-proxy).
const manyEndpoints = 1000

// entry is what a ServicePort has in force.
type entry struct {
	port *proxier.ServicePort
	// terse tells that it was rendered without comments of endpoints.
	terse bool
	rules Rules
}

// ruleset is what one family has, and the script of what to change in it. It is used
// by one goroutine at a time.
type ruleset struct {
	renderer renderer
	fixed    fixed
	entries  map[proxier.Key]entry
	// endpoints counts those of all entries, and total their rules.
	endpoints int
	total     Rules
	// script is what has to be done for the kernel to have the entries.
	script script
	// before and after are the ServicePort at hand.
	before, after block
	index         map[chainName]int
}

func newRuleset(r renderer, f fixed) *ruleset {
	return &ruleset{renderer: r, fixed: f, entries: map[proxier.Key]entry{}, index: map[chainName]int{}}
}

func (s *ruleset) terse() bool { return s.endpoints > manyEndpoints }

// endpointsOf counts the endpoints that p has chains for.
func endpointsOf(p *proxier.ServicePort) int {
	if p == nil {
		return 0
	}
	n := len(p.Cluster)
	if !usesLocal(p) {
		return n
	}
	for _, e := range p.Local {
		if !slices.ContainsFunc(p.Cluster, func(c proxier.Endpoint) bool { return c.Addr == e.Addr }) {
			n++
		}
	}
	return n
}

// apply fills the script with what d changes.
func (s *ruleset) apply(d proxier.Delta) {
	s.script.reset()
	for _, k := range d.Remove {
		s.endpoints -= endpointsOf(s.entries[k].port)
	}
	for _, p := range d.Update {
		s.endpoints += endpointsOf(p) - endpointsOf(s.entries[p.Key].port)
	}
	for _, k := range d.Remove {
		s.change(k, nil)
	}
	for _, p := range d.Update {
		if old := s.entries[p.Key]; old.port.Equal(p) {
			s.entries[p.Key] = entry{p, old.terse, old.rules}
			continue
		}
		s.change(p.Key, p)
	}
	for c := range s.script.shared {
		s.condense(sharedChain(c))
	}
}

// change puts port in the place of what is in force for a key; a nil port removes it.
func (s *ruleset) change(k proxier.Key, port *proxier.ServicePort) {
	old := s.entries[k]
	next := entry{port: port, terse: s.terse()}
	s.renderer.render(&s.before, old.port, old.terse)
	s.renderer.render(&s.after, port, next.terse)
	next.rules = s.after.counts()
	s.changeChains(k)
	s.changeShared(k)
	s.total = s.total.minus(old.rules).plus(next.rules)
	if port == nil {
		delete(s.entries, k)
		return
	}
	s.entries[k] = next
}

// changeChains writes the chains of a ServicePort that differ.
func (s *ruleset) changeChains(k proxier.Key) {
	made, text, gone := s.script.part(nat, chains), s.script.part(nat, rules), s.script.part(nat, drops)
	for _, p := range []*part{made, text, gone} {
		p.own(k)
	}
	clear(s.index)
	for i, c := range s.before.chains {
		s.index[c.name] = i
	}
	var name []byte
	for _, c := range s.after.chains {
		i, known := s.index[c.name]
		delete(s.index, c.name)
		if known && bytes.Equal(s.before.rules(s.before.chains[i]), s.after.rules(c)) {
			continue
		}
		name = c.name.append(name[:0])
		made.declare(name)
		text.write(s.after.rules(c))
	}
	for _, c := range s.before.chains {
		if _, left := s.index[c.name]; left {
			name = c.name.append(name[:0])
			made.declare(name)
			gone.drop(name)
		}
	}
}

// changeShared writes the rules of a ServicePort in shared chains that differ. New ones
// go to the head of the chain, the last one first, so that they end in their order.
func (s *ruleset) changeShared(k proxier.Key) {
	for _, r := range s.before.shared {
		if !s.after.contains(&s.before, r) {
			p := &s.script.shared[r.chain][deletes]
			p.own(k)
			p.as('D', s.before.rule(r))
		}
	}
	for _, r := range slices.Backward(s.after.shared) {
		if !s.before.contains(&s.after, r) {
			p := &s.script.shared[r.chain][inserts]
			p.own(k)
			p.as('I', s.after.rule(r))
		}
	}
}

// contains reports whether the block has a shared rule of another block.
func (b *block) contains(o *block, r sharedRule) bool {
	return slices.ContainsFunc(b.shared, func(have sharedRule) bool {
		return have.chain == r.chain && bytes.Equal(b.rule(have), o.rule(r))
	})
}

// fewDeletes is how many rules of one chain are deleted one by one. To find a rule,
// iptables reads the whole chain; to write the chain anew costs about as much.
const fewDeletes = 8

// condense writes a shared chain as a whole if too many of its rules go.
func (s *ruleset) condense(c sharedChain) {
	p := &s.script.shared[c]
	if p[deletes].lines <= fewDeletes {
		return
	}
	p[deletes].reset()
	p[inserts].reset()
	out := s.script.part(c.table(), rules)
	s.script.part(c.table(), chains).own(proxier.Key{})
	s.script.part(c.table(), chains).declare([]byte(c.String()))
	for k, e := range s.entries {
		s.renderer.render(&s.after, e.port, e.terse)
		out.own(k)
		for _, r := range s.after.shared {
			if r.chain == c {
				out.write(s.after.rule(r))
			}
		}
	}
	if c == natServices {
		out.own(proxier.Key{})
		out.write(s.fixed.tail)
	}
}
