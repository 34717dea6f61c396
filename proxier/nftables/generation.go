package nftables

import (
	"fmt"
	"strconv"
	"strings"

	nft "github.com/google/nftables"
	"github.com/google/nftables/binaryutil"

	"github.com/nodekit-go/nodekit/proxier"
)

// A generation is one set of sets, maps and chains in a table. The base chains
// of the table are outside of generations and lead to the one in force; another
// can be built beside it and take its place in one transaction. Names of a
// generation start with "g", its number and a slash.
type generation struct {
	program
	table  *nft.Table
	number int
	sets   [objectCount]*nft.Set
	chains map[chain]bool
}

// defaultAffinitySize is how many pinned clients a family may have. When the map
// is full, new clients are served without a pin.
const defaultAffinitySize = 1 << 18

func newGeneration(p program, table *nft.Table, number int) *generation {
	g := &generation{
		program: p,
		table:   table,
		number:  number,
		chains:  make(map[chain]bool),
	}
	g.setName = func(o object) string { return prefixed(number, o.String()) }
	g.chainName = func(c chain) string { return prefixed(number, c.String()) }
	return g
}

func prefixed(number int, name string) string {
	return "g" + strconv.Itoa(number) + "/" + name
}

// numberOf returns the generation that a name belongs to.
func numberOf(name string) (int, bool) {
	head, _, found := strings.Cut(name, "/")
	if !found || !strings.HasPrefix(head, "g") {
		return 0, false
	}
	n, err := strconv.Atoi(head[1:])
	return n, err == nil && n > 0
}

// affinityName is the map of pinned clients that the process makes in its first
// generation and takes along.
func affinityName(number int) string { return prefixed(number, "affinity") }

// create buffers everything of a generation but its elements and the chains
// that come on demand.
func (g *generation) create(c *nft.Conn) error {
	for o := range objectCount {
		g.sets[o] = g.newSet(o)
		if err := c.AddSet(g.sets[o], nil); err != nil {
			return fmt.Errorf("add %s: %w", o, err)
		}
	}
	for _, fixed := range []chain{
		{kind: classify},
		{kind: classifyPolicy},
		{kind: classifyRefusal},
		{kind: dropVerdict},
		{kind: reject},
		{kind: policyLocal},
		{kind: policyLocal, space: byNodePort},
		{kind: pick},
		{kind: pick, space: byNodePort},
		{kind: pickLocal},
		{kind: pickLocal, space: byNodePort},
		{kind: entryServices},
		{kind: entryMasquerade},
		{kind: entryInput},
		{kind: entryForward},
		{kind: entryFirewall},
	} {
		if _, err := g.ensure(c, fixed); err != nil {
			return err
		}
	}
	return nil
}

// createAffinity buffers the map of pinned clients.
func (g *generation) createAffinity(c *nft.Conn, size uint32) error {
	err := c.AddSet(&nft.Set{
		Table: g.table, ID: g.setID(objectCount), Name: g.affinity,
		IsMap: true, Dynamic: true, HasTimeout: true, Size: size,
		Concatenation: true,
		KeyType:       nft.MustConcatSetType(nft.TypeMark, g.addrType()),
		DataType:      nft.TypeMark,
	}, nil)
	if err != nil {
		return fmt.Errorf("add the affinity map: %w", err)
	}
	return nil
}

func (g *generation) addrType() nft.SetDatatype {
	if g.family == proxier.IPv6 {
		return nft.TypeIP6Addr
	}
	return nft.TypeIPAddr
}

// setID numbers the sets of a transaction. The library would take numbers from a
// counter of the whole process, which it does not guard.
func (g *generation) setID(o object) uint32 {
	return uint32(g.family)<<8 + uint32(o) + 1
}

func (g *generation) newSet(o object) *nft.Set {
	spec := objectSpecs[o]
	s := &nft.Set{Table: g.table, ID: g.setID(o), Name: g.setName(o)}
	types := make([]nft.SetDatatype, 0, len(spec.key))
	for _, part := range spec.key {
		types = append(types, g.partType(part))
		s.Interval = s.Interval || part == partSource
	}
	s.KeyType, s.Concatenation = nft.MustConcatSetType(types...), len(types) > 1
	if types[0] == nft.TypeMark {
		// The byte order is for those who list the map: the kernel compares bytes.
		s.KeyByteOrder = binaryutil.NativeEndian
	}
	switch spec.class {
	case endpointMap:
		s.IsMap, s.DataType = true, nft.MustConcatSetType(g.addrType(), nft.TypeInetService)
	case classMap:
		s.IsMap, s.DataType = true, nft.TypeMark
	case verdictMap:
		s.IsMap, s.DataType = true, nft.TypeVerdict
	}
	return s
}

func (g *generation) partType(c component) nft.SetDatatype {
	switch c {
	case partProto:
		return nft.TypeInetProto
	case partPort:
		return nft.TypeInetService
	case partNumber:
		return nft.TypeMark
	default:
		return g.addrType()
	}
}

// ensure buffers a chain, its class and the chains it leads to, unless they are
// there, and returns the number of messages.
func (g *generation) ensure(c *nft.Conn, want chain) (int, error) {
	if want.kind == noChain || g.chains[want] {
		return 0, nil
	}
	g.chains[want] = true
	messages, err := g.ensure(c, want.without())
	if err != nil {
		return 0, err
	}
	if want.kind != dropVerdict {
		ch := c.AddChain(&nft.Chain{Table: g.table, Name: g.chainName(want)})
		messages += 1 + g.addRules(c, ch, g.chainRules(want))
	}
	for _, in := range classesOf(want.kind) {
		class := element{in: in, key: key{number: want.number()}, value: value{to: want}}
		if err := c.SetAddElements(g.sets[in], []nft.SetElement{class.setElement(g.chainName)}); err != nil {
			return 0, fmt.Errorf("add the class of %s: %w", want, err)
		}
		messages++
	}
	return messages, nil
}

// setPinned buffers new rules for an affinity chain and returns the number of
// messages.
func (g *generation) setPinned(c *nft.Conn, l pinnedList) (int, error) {
	fallback, err := g.ensure(c, l.fallback)
	if err != nil {
		return 0, err
	}
	own, err := g.ensure(c, l.chain)
	if err != nil {
		return 0, err
	}
	ch := &nft.Chain{Table: g.table, Name: g.chainName(l.chain)}
	c.FlushChain(ch)
	return fallback + own + 1 + g.addRules(c, ch, g.pinnedRules(l)), nil
}

func (g *generation) addRules(c *nft.Conn, ch *nft.Chain, rules []rule) int {
	for _, r := range rules {
		c.AddRule(&nft.Rule{Table: g.table, Chain: ch, Exprs: r})
	}
	return len(rules)
}

// baseChain hooks a table into the kernel. Hooks and priorities are those that
// kube-proxy declares: destination NAT in prerouting and output, source NAT in
// postrouting, and filters in input, forward and output.
type baseChain struct {
	name     string
	kind     nft.ChainType
	hook     *nft.ChainHook
	priority nft.ChainPriority
	entry    chainKind
}

// firewallPriority is before destination NAT.
const firewallPriority = -110

func baseChains() []baseChain {
	return []baseChain{
		{"filter-prerouting-pre-dnat", nft.ChainTypeFilter, nft.ChainHookPrerouting, firewallPriority, entryFirewall},
		{"filter-output-pre-dnat", nft.ChainTypeFilter, nft.ChainHookOutput, firewallPriority, entryFirewall},
		{"filter-input", nft.ChainTypeFilter, nft.ChainHookInput, *nft.ChainPriorityFilter, entryInput},
		{"filter-forward", nft.ChainTypeFilter, nft.ChainHookForward, *nft.ChainPriorityFilter, entryForward},
		{"filter-output", nft.ChainTypeFilter, nft.ChainHookOutput, *nft.ChainPriorityFilter, entryForward},
		{"nat-prerouting", nft.ChainTypeNAT, nft.ChainHookPrerouting, *nft.ChainPriorityNATDest, entryServices},
		{"nat-output", nft.ChainTypeNAT, nft.ChainHookOutput, *nft.ChainPriorityNATDest, entryServices},
		{"nat-postrouting", nft.ChainTypeNAT, nft.ChainHookPostrouting, *nft.ChainPriorityNATSource, entryMasquerade},
	}
}

// addTable buffers the table and its base chains; what is there already stays.
func (g *generation) addTable(c *nft.Conn) {
	c.AddTable(g.table)
	for _, b := range baseChains() {
		accept := nft.ChainPolicyAccept
		c.AddChain(&nft.Chain{
			Table: g.table, Name: b.name, Type: b.kind,
			Hooknum: b.hook, Priority: &b.priority, Policy: &accept,
		})
	}
}

// flip buffers the change of the base chains that admit accepts, which puts g in
// force for them.
func (g *generation) flip(c *nft.Conn, admit func(nft.ChainType) bool) {
	for _, b := range baseChains() {
		if !admit(b.kind) {
			continue
		}
		ch := &nft.Chain{Table: g.table, Name: b.name}
		c.FlushChain(ch)
		r := rule{g.jumpTo(chain{kind: b.entry})}
		if b.kind == nft.ChainTypeFilter {
			r = newConnection().then(r...)
		}
		c.AddRule(&nft.Rule{Table: g.table, Chain: ch, Exprs: r})
	}
}

// chunk is how many elements go into one message: its length is kept in 16
// bits, and an element takes up to about 120 bytes.
const chunk = 400

// write buffers changes of elements: per set first those that go, then those
// that come. The chains that they lead to must be there.
func (g *generation) write(c *nft.Conn, ops []op) error {
	var gone, come [objectCount][]nft.SetElement
	for _, o := range ops {
		if o.del {
			gone[o.in] = append(gone[o.in], element{in: o.in, key: o.key}.keyElement())
		}
		if o.add {
			e := element{in: o.in, key: o.key, value: o.new}
			come[o.in] = append(come[o.in], e.setElement(g.chainName))
		}
	}
	for o := range objectCount {
		if err := inChunks(gone[o], func(e []nft.SetElement) error { return c.SetDeleteElements(g.sets[o], e) }); err != nil {
			return fmt.Errorf("delete elements of %s: %w", o, err)
		}
	}
	for o := range objectCount {
		if err := inChunks(come[o], func(e []nft.SetElement) error { return c.SetAddElements(g.sets[o], e) }); err != nil {
			return fmt.Errorf("add elements of %s: %w", o, err)
		}
	}
	return nil
}

func inChunks(all []nft.SetElement, f func([]nft.SetElement) error) error {
	for len(all) > 0 {
		n := min(len(all), chunk)
		if err := f(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}
