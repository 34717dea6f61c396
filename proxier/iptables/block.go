package iptables

import (
	"bytes"
	"net/netip"
	"strconv"
)

// block is what one ServicePort has in the kernel: lines in one buffer, in the form in
// which iptables-save prints them, and where they belong. It is used again and again,
// so that a rule costs no memory of its own.
type block struct {
	buf []byte
	// chains are those of the ServicePort alone, with all their rules.
	chains []chainText
	// shared are rules in the chains of all.
	shared []sharedRule
	// name is the ServicePort's, for comments.
	name []byte
	// cluster and local are its endpoints, whose text is in addrs.
	cluster, local []endpointText
	addrs          []byte
}

// chainText is a chain with its rules, which are buf[start:end].
type chainText struct {
	name       chainName
	start, end int
}

// sharedRule is one rule in the chain of many, buf[start:end].
type sharedRule struct {
	chain      sharedChain
	start, end int
}

// endpointText is an endpoint with its "address:port", addrs[start:end].
type endpointText struct {
	chain      chainName
	addr       netip.Addr
	start, end int
}

func (b *block) reset() {
	b.buf, b.addrs, b.name = b.buf[:0], b.addrs[:0], b.name[:0]
	b.chains, b.shared = b.chains[:0], b.shared[:0]
	b.cluster, b.local = b.cluster[:0], b.local[:0]
}

// rules returns the rules of a chain.
func (b *block) rules(c chainText) []byte { return b.buf[c.start:c.end] }

// rule returns a rule in a shared chain.
func (b *block) rule(s sharedRule) []byte { return b.buf[s.start:s.end] }

// counts returns how many rules the block has in a table.
func (b *block) counts() Rules {
	var n Rules
	for _, c := range b.chains {
		n.NAT += bytes.Count(b.rules(c), []byte(newline))
	}
	for _, s := range b.shared {
		n.add(s.chain.table(), 1)
	}
	return n
}

// open begins a chain of the ServicePort's own; close ends it.
func (b *block) open(n chainName) {
	b.chains = append(b.chains, chainText{name: n, start: len(b.buf)})
}

func (b *block) close() { b.chains[len(b.chains)-1].end = len(b.buf) }

// begin begins a rule in a chain of the ServicePort's own.
func (b *block) begin(n chainName) {
	b.text("-A ")
	b.buf = n.append(b.buf)
}

// share begins a rule in a shared chain; shareEnd ends it with its target, shareTo with
// the chain that it leads to.
func (b *block) share(c sharedChain) {
	b.shared = append(b.shared, sharedRule{chain: c, start: len(b.buf)})
	b.text("-A ")
	b.text(c.String())
}

func (b *block) shareEnd(target string) {
	b.jump(target)
	b.shared[len(b.shared)-1].end = len(b.buf)
}

func (b *block) shareTo(n chainName) {
	b.jumpTo(n)
	b.shared[len(b.shared)-1].end = len(b.buf)
}

func (b *block) text(s string) { b.buf = append(b.buf, s...) }

func (b *block) number(n uint64) { b.buf = strconv.AppendUint(b.buf, n, 10) }

// jump ends a rule with its target.
func (b *block) jump(target string) {
	b.text(" -j ")
	b.text(target)
	b.text("\n")
}

// jumpTo ends a rule with the chain that it leads to.
func (b *block) jumpTo(n chainName) {
	b.text(" -j ")
	b.buf = n.append(b.buf)
	b.text("\n")
}

// comment writes a comment with the name of the ServicePort in it.
func (b *block) comment(before, after string) {
	b.text(` -m comment --comment "`)
	b.text(before)
	b.buf = append(b.buf, b.name...)
	b.text(after)
	b.text(`"`)
}

// prefix writes a match of an address; flag is -s or -d.
func (b *block) prefix(flag string, p netip.Prefix) {
	b.text(flag)
	b.buf = p.AppendTo(b.buf)
}

func (b *block) host(flag string, a netip.Addr) {
	b.prefix(flag, netip.PrefixFrom(a, a.BitLen()))
}

// port writes the match of a destination port, protocol first.
func (b *block) port(protocol string, port uint16) {
	b.text(" -m ")
	b.text(protocol)
	b.text(" --dport ")
	b.number(uint64(port))
}

// pods writes the match of traffic from pods, or with not of other traffic. It comes
// in two parts, as a destination stands between source and interface.
func (b *block) podSource(m podMatch, not bool) {
	if !m.source.IsValid() {
		return
	}
	if not {
		b.text(" !")
	}
	b.prefix(" -s ", m.source)
}

func (b *block) podInterface(m podMatch, not bool) {
	if m.iface == "" {
		return
	}
	if not {
		b.text(" !")
	}
	b.text(" -i ")
	b.text(m.iface)
}
