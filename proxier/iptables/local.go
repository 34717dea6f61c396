package iptables

import (
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// Local says which traffic comes from pods of the cluster. Connections to a
// cluster IP from elsewhere are masqueraded, so that the answers come back
// through this node; connections from pods to a frontend with
// externalTrafficPolicy Local may use every endpoint. At most one of the
// fields may be set. The zero value detects nothing: then no connection to a
// cluster IP counts as foreign.
type Local struct {
	// ClusterCIDRs are the addresses of pods, one prefix of a family at most: a rule
	// can compare with one. A family without is not detected.
	ClusterCIDRs []netip.Prefix
	// NodeCIDRs takes Network.PodCIDRs of the State for the addresses of pods, the
	// first of each family. While there are none nothing is detected.
	NodeCIDRs bool
	// BridgeInterface is the name of the bridge that pods are behind.
	BridgeInterface string
	// InterfaceNamePrefix is what the names of the interfaces of pods begin with.
	InterfaceNamePrefix string
}

// maxInterfaceName is IFNAMSIZ of linux/if.h without the final zero. A prefix has one
// less, for the sign that makes it one.
const maxInterfaceName = 15

func (l *Local) validate() error {
	set := 0
	for _, on := range []bool{len(l.ClusterCIDRs) > 0, l.NodeCIDRs, l.BridgeInterface != "", l.InterfaceNamePrefix != ""} {
		if on {
			set++
		}
	}
	if set > 1 {
		return fmt.Errorf("config: Local: set one of ClusterCIDRs, NodeCIDRs, BridgeInterface, InterfaceNamePrefix, not %d", set)
	}
	for _, name := range []struct {
		field, value string
		longest      int
	}{
		{"BridgeInterface", l.BridgeInterface, maxInterfaceName},
		{"InterfaceNamePrefix", l.InterfaceNamePrefix, maxInterfaceName - 1},
	} {
		if len(name.value) > name.longest {
			return fmt.Errorf("config: Local.%s %q is longer than %d bytes", name.field, name.value, name.longest)
		}
		if !plain(name.value, "-_.:@") {
			return fmt.Errorf("config: Local.%s %q is not the name of an interface", name.field, name.value)
		}
	}
	seen := map[proxier.Family]bool{}
	for _, p := range l.ClusterCIDRs {
		if !p.IsValid() {
			return fmt.Errorf("config: Local.ClusterCIDRs: invalid prefix %v", p)
		}
		f := proxier.FamilyOf(p.Addr())
		if seen[f] {
			return fmt.Errorf("config: Local.ClusterCIDRs: %v is a second prefix of %s: a rule can compare with one", p, f)
		}
		seen[f] = true
	}
	return nil
}

// plain reports whether a name has letters, digits and the other characters alone.
func plain(name, others string) bool {
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		other := false
		for j := range len(others) {
			other = other || others[j] == c
		}
		if !other {
			return false
		}
	}
	return true
}

// podMatch is how rules of one family tell traffic of pods: by a prefix of its source,
// or by the name of the interface it comes in by. The zero value does not.
type podMatch struct {
	source netip.Prefix
	iface  string
}

func (m podMatch) detects() bool { return m != podMatch{} }

// match returns how a family tells traffic of pods.
func (l Local) match(f proxier.Family, n proxier.Network) podMatch {
	switch {
	case l.BridgeInterface != "":
		return podMatch{iface: l.BridgeInterface}
	case l.InterfaceNamePrefix != "":
		return podMatch{iface: l.InterfaceNamePrefix + "+"}
	}
	cidrs := l.ClusterCIDRs
	if l.NodeCIDRs {
		cidrs = n.PodCIDRs
	}
	for _, p := range cidrs {
		if p = unmapPrefix(p); proxier.FamilyOf(p.Addr()) == f {
			return podMatch{source: p}
		}
	}
	return podMatch{}
}

// unmapPrefix turns a prefix of IPv4-mapped IPv6 addresses into the IPv4 one.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}
