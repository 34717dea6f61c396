package proxier

import (
	"fmt"
	"net/netip"
)

// Local says which traffic comes from pods of the cluster. Connections to a cluster IP
// from elsewhere are masqueraded, so that the answers come back through this node;
// connections from pods to a frontend with externalTrafficPolicy Local may use every
// endpoint. At most one of the fields may be set. The zero value detects nothing: then no
// connection to a cluster IP counts as foreign. The fields are the ways of detectLocalMode
// (https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/).
type Local struct {
	// ClusterCIDRs are the addresses of pods. A family without a prefix is not detected.
	ClusterCIDRs []netip.Prefix
	// NodeCIDRs takes Network.PodCIDRs of the State for the addresses of pods. While
	// there are none nothing is detected.
	NodeCIDRs bool
	// BridgeInterface is the interface that packets of pods come in by.
	BridgeInterface string
	// InterfaceNamePrefix begins the names of such interfaces. Interfaces may come and
	// go: names are compared, not indexes.
	InterfaceNamePrefix string
}

// maxInterfaceName is IFNAMSIZ of linux/if.h without the final zero.
const maxInterfaceName = 15

// Validate returns an error that names the field that cannot be used, as one of a field
// Local of a Backend's Config.
func (l Local) Validate() error {
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

// In returns l with what it takes from a Network filled in: with NodeCIDRs, ClusterCIDRs.
func (l Local) In(n Network) Local {
	if l.NodeCIDRs {
		l.ClusterCIDRs = n.PodCIDRs
	}
	return l
}

// Detects reports whether l, with what In fills in, tells anything about a family.
func (l Local) Detects(f Family) bool {
	return l.BridgeInterface != "" || l.InterfaceNamePrefix != "" || len(PrefixesOf(f, l.ClusterCIDRs)) > 0
}

// PrefixesOf returns the prefixes of one family, as UnmapPrefix leaves them; nil if there
// are none.
func PrefixesOf(f Family, in []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range in {
		if p = UnmapPrefix(p); FamilyOf(p.Addr()) == f {
			out = append(out, p)
		}
	}
	return out
}

// UnmapPrefix turns a prefix of IPv4-mapped IPv6 addresses into the IPv4 one, and clears
// the bits behind the prefix.
func UnmapPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}
