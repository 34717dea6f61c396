package ipvs

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Local says which traffic comes from pods of the cluster. Connections to a
// cluster IP from elsewhere are masqueraded, so that the answers come back
// through this node; connections from pods to a frontend with
// externalTrafficPolicy Local may use every endpoint. At most one of the
// fields may be set. The zero value detects nothing: then no connection to a
// cluster IP counts as foreign.
type Local struct {
	// ClusterCIDRs are the addresses of pods. A family without a prefix is not
	// detected.
	ClusterCIDRs []netip.Prefix
	// NodeCIDRs takes Network.PodCIDRs of the State for the addresses of pods. While
	// there are none nothing is detected.
	NodeCIDRs bool
	// BridgeInterface is the interface that packets of pods come in by.
	BridgeInterface string
	// InterfaceNamePrefix begins the names of such interfaces.
	InterfaceNamePrefix string
}

// maxInterfaceName is IFNAMSIZ of linux/if.h without the final zero.
const maxInterfaceName = unix.IFNAMSIZ - 1

func (l Local) validate() error {
	set := 0
	for _, on := range []bool{len(l.ClusterCIDRs) > 0, l.NodeCIDRs, l.BridgeInterface != "", l.InterfaceNamePrefix != ""} {
		if on {
			set++
		}
	}
	if set > 1 {
		return fmt.Errorf("config: Local: set one of ClusterCIDRs, NodeCIDRs, BridgeInterface, InterfaceNamePrefix, not %d", set)
	}
	for _, name := range []struct{ field, value string }{
		{"BridgeInterface", l.BridgeInterface}, {"InterfaceNamePrefix", l.InterfaceNamePrefix},
	} {
		if len(name.value) > maxInterfaceName {
			return fmt.Errorf("config: Local.%s %q is longer than %d bytes", name.field, name.value, maxInterfaceName)
		}
	}
	for _, p := range l.ClusterCIDRs {
		if !p.IsValid() {
			return fmt.Errorf("config: Local.ClusterCIDRs: invalid prefix %v", p)
		}
	}
	return nil
}

// in returns l with what it takes from n filled in.
func (l Local) in(n proxier.Network) Local {
	if l.NodeCIDRs {
		l.ClusterCIDRs = n.PodCIDRs
	}
	return l
}

// detects reports whether l tells anything about a family.
func (l Local) detects(f proxier.Family) bool {
	return l.BridgeInterface != "" || l.InterfaceNamePrefix != "" || len(ofFamily(l.ClusterCIDRs, f)) > 0
}

// foreign matches packets that do not come from pods. It must not be called for a family
// that is not detected.
func (l Local) foreign(p *program) rule {
	if m := l.iface(expr.CmpOpNeq); m != nil {
		return m
	}
	var r rule
	for _, prefix := range ofFamily(l.ClusterCIDRs, p.family) {
		r = r.then(inPrefix(p.source(reg), prefix, expr.CmpOpNeq)...)
	}
	return r
}

// fromPods returns the alternatives of which one matches each packet from a pod.
func (l Local) fromPods(p *program) []rule {
	if m := l.iface(expr.CmpOpEq); m != nil {
		return []rule{m}
	}
	var out []rule
	for _, prefix := range ofFamily(l.ClusterCIDRs, p.family) {
		out = append(out, inPrefix(p.source(reg), prefix, expr.CmpOpEq))
	}
	return out
}

// iface compares the name of the incoming interface: all sixteen bytes, or as many as the
// prefix has. Packets of the node itself have none.
func (l Local) iface(op expr.CmpOp) rule {
	var name []byte
	switch {
	case l.BridgeInterface != "":
		name = make([]byte, unix.IFNAMSIZ)
		copy(name, l.BridgeInterface)
	case l.InterfaceNamePrefix != "":
		name = []byte(l.InterfaceNamePrefix)
	default:
		return nil
	}
	return rule{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg}, &expr.Cmp{Op: op, Register: reg, Data: name}}
}

func ofFamily(in []netip.Prefix, f proxier.Family) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range in {
		if p = unmapPrefix(p); proxier.FamilyOf(p.Addr()) == f {
			out = append(out, p)
		}
	}
	return out
}

// unmapPrefix turns a prefix of IPv4-mapped IPv6 addresses into the IPv4 one.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}
