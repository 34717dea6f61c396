package proxier_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

func prefixesOf(s ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestLocalDetects(t *testing.T) {
	network := proxier.Network{PodCIDRs: prefixesOf("10.244.1.0/24", "fd00:1::/64")}
	for _, tt := range []struct {
		name   string
		local  proxier.Local
		v4, v6 bool
	}{
		{"nothing", proxier.Local{}, false, false},
		{"one family", proxier.Local{ClusterCIDRs: prefixesOf("10.244.0.0/16")}, true, false},
		{"IPv4 within IPv6", proxier.Local{ClusterCIDRs: prefixesOf("::ffff:10.244.0.0/112")}, true, false},
		{"those of the node", proxier.Local{NodeCIDRs: true}, true, true},
		{"a bridge", proxier.Local{BridgeInterface: "cni0"}, true, true},
		{"interfaces", proxier.Local{InterfaceNamePrefix: "veth"}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.local.Validate(); err != nil {
				t.Fatal(err)
			}
			l := tt.local.In(network)
			if v4, v6 := l.Detects(proxier.IPv4), l.Detects(proxier.IPv6); v4 != tt.v4 || v6 != tt.v6 {
				t.Errorf("detects %v and %v, want %v and %v", v4, v6, tt.v4, tt.v6)
			}
			if tt.local.NodeCIDRs && tt.local.In(proxier.Network{}).Detects(proxier.IPv4) {
				t.Error("detects pods of a node without prefixes")
			}
		})
	}
}

func TestLocalIsChecked(t *testing.T) {
	for want, l := range map[string]proxier.Local{
		"set one of":                         {NodeCIDRs: true, BridgeInterface: "cni0"},
		"Local.BridgeInterface":              {BridgeInterface: strings.Repeat("x", 16)},
		"Local.InterfaceNamePrefix":          {InterfaceNamePrefix: strings.Repeat("x", 16)},
		"Local.ClusterCIDRs: invalid prefix": {ClusterCIDRs: []netip.Prefix{{}}},
	} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate(%+v) = %v, want %q", l, err, want)
		}
	}
}

func TestPrefixesOf(t *testing.T) {
	in := prefixesOf("10.1.2.3/8", "fd00::1/64", "::ffff:10.244.0.0/112", "::ffff:0.0.0.0/80")
	for f, want := range map[proxier.Family][]string{
		proxier.IPv4: {"10.0.0.0/8", "10.244.0.0/16"},
		proxier.IPv6: {"fd00::/64", "::/80"},
	} {
		var got []string
		for _, p := range proxier.PrefixesOf(f, in) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f, diff)
		}
	}
}
