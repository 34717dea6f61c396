package nftables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/nodekit-go/nodekit/proxier"
)

// errOddElement says that an element of one of the Backend's sets is not of the shape
// that the Backend gives it.
var errOddElement = errors.New("an element has an unexpected length")

// inForceNumber returns the generation that the base chains lead to; 0 if none does. Of a
// table that is not there the kernel lists no rules.
func (b *Backend) inForceNumber(ctx context.Context, f proxier.Family) (int, error) {
	table := b.table(f)
	var rules []*nft.Rule
	err := b.conn.within(ctx, func() error {
		var err error
		rules, err = b.conn.nft.GetRules(table, &nft.Chain{Table: table, Name: "nat-prerouting"})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("list the rules of nat-prerouting: %w", err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if v, ok := e.(*expr.Verdict); ok {
				if n, ok := numberOf(v.Chain); ok {
					return n, nil
				}
			}
		}
	}
	return 0, nil
}

// dumped returns the elements that the kernel has in the generation in force of a
// family. It lists everything, which takes seconds from tens of thousands of
// elements on.
func (b *Backend) dumped(ctx context.Context, f proxier.Family) ([]element, error) {
	if _, err := b.connect(); err != nil {
		return nil, err
	}
	out, err := b.list(ctx, f)
	if err != nil {
		// Answers may be left in it. The next caller gets a new one.
		_ = b.hangUp()
	}
	return out, err
}

// list is dumped with a connection.
func (b *Backend) list(ctx context.Context, f proxier.Family) ([]element, error) {
	number, err := b.inForceNumber(ctx, f)
	if err != nil || number == 0 {
		return nil, err
	}
	g := newGeneration(program{assembler: assembler{family: f}}, b.table(f), number)
	var out []element
	for o := range classes {
		var listed []nft.SetElement
		err := b.conn.within(ctx, func() error {
			var err error
			listed, err = b.conn.nft.GetSetElements(g.newSet(o))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", g.setName(o), err)
		}
		for _, in := range listed {
			e, err := decodeElement(o, f, in)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", g.setName(o), err)
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// decodeElement is the inverse of element.setElement for all objects that Services
// have elements in.
func decodeElement(o object, f proxier.Family, in nft.SetElement) (element, error) {
	size := 4
	if f == proxier.IPv6 {
		size = 16
	}
	e := element{in: o}
	r := reader{rest: in.Key}
	for _, part := range objectSpecs[o].key {
		switch part {
		case partAddr:
			e.key.addr = r.addr(size)
		case partProto:
			e.key.proto = proxier.Protocol(r.take(4)[0])
		case partPort:
			e.key.port = binary.BigEndian.Uint16(r.take(4))
		case partNumber:
			e.key.number = binary.NativeEndian.Uint32(r.take(4))
		case partSource:
			first := r.addr(size)
			end := reader{rest: in.KeyEnd[max(0, len(in.KeyEnd)-size):]}
			e.key.source = between(first, end.addr(size))
			r.short = r.short || end.short
		}
	}
	value := reader{rest: in.Val}
	switch objectSpecs[o].class {
	case endpointMap:
		addr := value.addr(size)
		e.value.ep = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(value.take(4)))
	case classMap:
		e.value.to = chainOf(binary.NativeEndian.Uint32(value.take(4)))
	}
	if r.short || value.short {
		return element{}, errOddElement
	}
	return e, nil
}

// between returns the prefix whose first and last addresses are given.
func between(first, last netip.Addr) netip.Prefix {
	for bits := first.BitLen(); bits > 0; bits-- {
		if p := netip.PrefixFrom(first, bits); lastAddr(p) == last {
			return p
		}
	}
	return netip.PrefixFrom(first, 0)
}

// chainOf is the inverse of chain.number.
func chainOf(number uint32) chain {
	kind := chainKind(number >> 24)
	if int(kind) >= len(chainNames) {
		return chain{}
	}
	return chain{kind: kind, space: space(number >> 23 & 1), n: number & (1<<23 - 1)}
}

// reader takes parts from a key or a value. It returns zeros when there is too
// little.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if len(r.rest) < n {
		r.short = true
		return make([]byte, n)
	}
	head := r.rest[:n]
	r.rest = r.rest[n:]
	return head
}

func (r *reader) addr(size int) netip.Addr {
	a, _ := netip.AddrFromSlice(r.take(size))
	return a
}

// Change is one element in which the kernel differs from a State.
type Change struct {
	// Add tells what Reset would bring from what it would take away.
	Add    bool
	Family proxier.Family
	// Object is the set or map, Element the element as nft prints it, but with the
	// names of chains in the place of their numbers.
	Object  string
	Element string
}

// String returns "+ IPv4 services { … }" or the same with a minus.
func (c Change) String() string {
	sign := "-"
	if c.Add {
		sign = "+"
	}
	return fmt.Sprintf("%s %s %s", sign, c.Family, c.Element)
}

// Plan returns in which elements the kernel differs from s, sorted, and changes
// nothing. Slots of endpoints and numbers of affinity lists, which are as good as any
// others, do not count; nor does what Config decides. It lists the tables, which takes
// seconds from tens of thousands of elements on.
func (b *Backend) Plan(ctx context.Context, s *proxier.State) ([]Change, error) {
	fresh := &Backend{
		cfg: b.cfg, network: s.Network, local: b.cfg.Local.In(s.Network),
		generations: map[proxier.Family]*generation{},
	}
	for _, f := range b.cfg.Families {
		fresh.generations[f] = &generation{}
	}
	var out []Change
	for _, f := range b.cfg.Families {
		have, err := b.dumped(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("nftables: plan table %s of %s: %w", b.cfg.Table, f, privileged(err))
		}
		out = append(out, difference(f, have, fresh.elements(f, s))...)
	}
	return out, nil
}

// elements returns all elements that s needs in a family.
func (b *Backend) elements(f proxier.Family, s *proxier.State) []element {
	batch, refs := &batch{}, make(counts)
	for _, p := range s.Ports {
		if p.Key.Family == f && b.programs(p) {
			batch.change(f, view{}, render(b.newEntry(nil, p), b.policy(f)), refs)
		}
	}
	out := make([]element, 0, len(batch.come))
	for _, e := range batch.come {
		out = append(out, e.element)
	}
	return out
}

// Elements returns what p needs in the kernel as nft prints it, but with the names of
// chains in the place of their numbers, sorted. It is for explanations: the slots and
// lists that p has in force may have other numbers.
func (b *Backend) Elements(n proxier.Network, p *proxier.ServicePort) []string {
	fresh := &Backend{
		cfg: b.cfg, network: n, local: b.cfg.Local.In(n),
		generations: map[proxier.Family]*generation{p.Key.Family: {}},
	}
	var out []string
	for _, e := range fresh.elements(p.Key.Family, &proxier.State{Ports: []*proxier.ServicePort{p}}) {
		out = append(out, e.canonical())
	}
	slices.Sort(out)
	return out
}

// difference compares two bags of elements by what is not arbitrary in them.
func difference(f proxier.Family, have, want []element) []Change {
	type line struct{ object, text string }
	count := make(map[line]int, len(want))
	for _, e := range want {
		count[line{e.in.String(), e.canonical()}]++
	}
	for _, e := range have {
		count[line{e.in.String(), e.canonical()}]--
	}
	var out []Change
	for l, n := range count {
		for ; n > 0; n-- {
			out = append(out, Change{Add: true, Family: f, Object: l.object, Element: l.text})
		}
		for ; n < 0; n++ {
			out = append(out, Change{Family: f, Object: l.object, Element: l.text})
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		if a.Add != b.Add {
			return map[bool]int{false: -1, true: 1}[a.Add] // what goes before what comes
		}
		return slices.Compare([]string{a.Element}, []string{b.Element})
	})
	return out
}

// canonical prints e without the numbers that depend on history.
func (e element) canonical() string {
	if objectSpecs[e.in].class == endpointMap {
		e.key.number = 0
	}
	switch e.value.to.kind {
	case affinity, affinityLocal, affinityCluster, affinityExternal:
		e.value.to.n = 0
	}
	return e.String()
}
