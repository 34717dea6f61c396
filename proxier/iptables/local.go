package iptables

import (
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// Local says which traffic comes from pods of the cluster. A rule of iptables can compare
// with one prefix: ClusterCIDRs has one of a family at most, and NodeCIDRs takes the first of
// each. InterfaceNamePrefix has 14 bytes at most.
type Local = proxier.Local

// maxPrefixName is what the prefix of the name of an interface may have: IFNAMSIZ of
// linux/if.h without the final zero and the sign that makes it one.
const maxPrefixName = 14

// validateLocal is Validate for what rules of iptables can tell.
func validateLocal(l Local) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if name := l.InterfaceNamePrefix; len(name) > maxPrefixName {
		return fmt.Errorf("config: Local.InterfaceNamePrefix %q is longer than %d bytes", name, maxPrefixName)
	}
	for _, name := range []struct{ field, value string }{
		{"BridgeInterface", l.BridgeInterface}, {"InterfaceNamePrefix", l.InterfaceNamePrefix},
	} {
		if !plain(name.value, "-_.:@") {
			return fmt.Errorf("config: Local.%s %q is not the name of an interface", name.field, name.value)
		}
	}
	seen := map[proxier.Family]bool{}
	for _, p := range l.ClusterCIDRs {
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
func match(l Local, f proxier.Family, n proxier.Network) podMatch {
	switch {
	case l.BridgeInterface != "":
		return podMatch{iface: l.BridgeInterface}
	case l.InterfaceNamePrefix != "":
		return podMatch{iface: l.InterfaceNamePrefix + "+"}
	}
	if cidrs := proxier.PrefixesOf(f, l.In(n).ClusterCIDRs); len(cidrs) > 0 {
		return podMatch{source: cidrs[0]}
	}
	return podMatch{}
}
