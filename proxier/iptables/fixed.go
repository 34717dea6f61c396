package iptables

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// Loopback addresses, as rules have them.
const (
	loopback4 = "127.0.0.0/8"
	loopback6 = "::1/128"
)

// Names of counters of nfnetlink_acct; kube-proxy has the same.
const (
	invalidCounter       = "ct_state_invalid_dropped_pkts"
	localNodePortCounter = "localhost_nps_accepted_pkts"
)

// jump is a rule that leads from a chain of the kernel to one of the Backend.
type jump struct {
	table    tableName
	from, to string
	isNew    bool // only the first packet of a connection
	comment  string
}

// append appends the rule.
func (j jump) append(b []byte) []byte {
	b = append(append(b, "-A "...), j.from...)
	if j.isNew {
		b = append(b, " -m conntrack --ctstate NEW"...)
	}
	if j.comment != "" {
		b = fmt.Appendf(b, " -m comment --comment %q", j.comment)
	}
	return fmt.Appendf(b, " -j %s\n", j.to)
}

// jumps are in the order in which they are inserted at the head of their chains: of
// two in one chain, the later one stands above.
func jumps() []jump {
	const (
		external  = "kubernetes externally-visible service portals"
		portals   = "kubernetes service portals"
		lbFilter  = "kubernetes load balancer firewall"
		forwarded = "kubernetes forwarding rules"
	)
	return []jump{
		{filter, "INPUT", externalServices, true, external},
		{filter, "FORWARD", externalServices, true, external},
		{filter, "INPUT", nodePortsChain, false, "kubernetes health check service ports"},
		{filter, "FORWARD", servicesChain, true, portals},
		{filter, "OUTPUT", servicesChain, true, portals},
		{filter, "FORWARD", forwardChain, false, forwarded},
		{filter, "INPUT", proxyFirewallChain, true, lbFilter},
		{filter, "OUTPUT", proxyFirewallChain, true, lbFilter},
		{filter, "FORWARD", proxyFirewallChain, true, lbFilter},
		{nat, "OUTPUT", servicesChain, false, portals},
		{nat, "PREROUTING", servicesChain, false, portals},
		{nat, "POSTROUTING", postroutingChain, false, "kubernetes postrouting rules"},
		{filter, "INPUT", hostFirewallChain, false, ""},
		{filter, "OUTPUT", hostFirewallChain, false, ""},
	}
}

// fixedChain is a chain whose rules do not depend on ServicePorts.
type fixedChain struct {
	table tableName
	name  string
	rules []byte
}

// fixed is what a family has beside ServicePorts.
type fixed struct {
	chains []fixedChain
	// guard drops packets for 127.0.0.1 that come from elsewhere; empty where nothing
	// lets them in. It stands in a chain that the kubelet has rules in, too.
	guard []byte
	// tail are the last rules of KUBE-SERVICES in table nat: they lead to node ports.
	tail []byte
}

// settings are what fixed rules depend on.
type settings struct {
	family proxier.Family
	mark   uint32
	// liberal tells that the kernel tracks packets out of the window, too. Then none
	// is invalid for that, and none is dropped.
	liberal bool
	// countInvalid counts what is dropped.
	countInvalid bool
	// localNodePorts lets node ports answer at 127.0.0.1.
	localNodePorts bool
	// nodePorts are the addresses that node ports answer at; with everywhere, all that
	// the node has.
	everywhere bool
	nodePorts  []netip.Addr
}

func (s settings) fixed() fixed {
	m := fmt.Sprintf("0x%x/0x%x", s.mark, s.mark)
	f := fixed{
		chains: []fixedChain{
			{nat, postroutingChain, fmt.Appendf(nil, "-A %[1]s -m mark ! --mark %[2]s -j RETURN\n"+
				// The mark goes, so that packets that pass again are not masqueraded again.
				"-A %[1]s -j MARK --set-xmark 0x%[3]x/0x0\n"+
				"-A %[1]s -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE --random-fully\n",
				postroutingChain, m, s.mark)},
			{nat, markChain, fmt.Appendf(nil, "-A %s -j MARK --set-xmark %s\n", markChain, m)},
			{filter, forwardChain, s.forward(m)},
		},
		tail: s.tail(),
	}
	if s.localNodePorts {
		f.guard = guard()
	}
	return f
}

// guard is the rule that has to be there before route_localnet is set.
func guard() []byte {
	return fmt.Appendf(nil, "-A %s ! -s %[2]s -d %[2]s -m comment --comment \"block incoming localnet connections\" "+
		"-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n", hostFirewallChain, loopback4)
}

// forward lets through what belongs to Services, where the policy of FORWARD would not.
func (s settings) forward(mark string) []byte {
	var b []byte
	if !s.liberal {
		b = fmt.Appendf(b, "-A %s -m conntrack --ctstate INVALID", forwardChain)
		if s.countInvalid {
			b = fmt.Appendf(b, " -m nfacct --nfacct-name  %s", invalidCounter)
		}
		b = append(b, " -j DROP\n"...)
	}
	b = fmt.Appendf(b, "-A %s -m comment --comment \"kubernetes forwarding rules\" -m mark --mark %s -j ACCEPT\n", forwardChain, mark)
	return fmt.Appendf(b, "-A %s -m comment --comment \"kubernetes forwarding conntrack rule\" "+
		"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n", forwardChain)
}

func (s settings) tail() []byte {
	const what = ` -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain"`
	const target = " -j " + nodePortsChain + "\n"
	if s.everywhere {
		but := ""
		switch {
		case s.family == proxier.IPv6:
			but = " ! -d " + loopback6
		case !s.localNodePorts:
			but = " ! -d " + loopback4
		}
		return fmt.Appendf(nil, "-A %s%s%s -m addrtype --dst-type LOCAL%s", servicesChain, but, what, target)
	}
	var b []byte
	for _, a := range s.nodePorts {
		if a.IsLoopback() && !s.localNodePorts {
			continue
		}
		b = fmt.Appendf(b, "-A %s -d %s/%d%s%s", servicesChain, a, a.BitLen(), what, target)
	}
	return b
}

// counts returns how many rules there are in chains of the Backend.
func (f fixed) counts() Rules {
	n := Rules{NAT: bytes.Count(f.tail, []byte(newline)), Filter: bytes.Count(f.guard, []byte(newline))}
	for _, c := range f.chains {
		n.add(c.table, bytes.Count(c.rules, []byte(newline)))
	}
	return n
}
