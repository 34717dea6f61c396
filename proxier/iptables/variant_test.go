package iptables

import (
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestVariantOfTheHostIsFound(t *testing.T) {
	hint := func(c *commands, name string) { c.of(name, "mangle").do(false, ":KUBE-IPTABLES-HINT - [0:0]") }
	tests := []struct {
		name    string
		missing []string
		want    Variant // of Config
		host    func(*commands)
		found   string // the program of IPv6
		err     string
	}{
		{name: "nothing to see", found: "ip6tables-nft-restore"},
		{name: "hint of the kubelet, nft", found: "ip6tables-nft-restore", host: func(c *commands) {
			hint(c, "iptables-nft")
			c.of("iptables-legacy", "nat").do(false, "-A OUTPUT -j RETURN")
		}},
		{name: "hint of the kubelet, legacy", found: "ip6tables-legacy-restore", host: func(c *commands) {
			hint(c, "iptables-legacy")
			c.of("iptables-nft", "nat").do(false, "-A OUTPUT -j RETURN")
		}},
		{name: "hint in IPv6 alone", found: "ip6tables-legacy-restore", host: func(c *commands) { hint(c, "ip6tables-legacy") }},
		{name: "more legacy rules", found: "ip6tables-legacy-restore", host: func(c *commands) {
			c.of("iptables-legacy", "nat").do(false, "-A OUTPUT -j RETURN")
		}},
		{name: "as many rules", found: "ip6tables-nft-restore", host: func(c *commands) {
			c.of("iptables-legacy", "nat").do(false, "-A OUTPUT -j RETURN")
			c.of("iptables-nft", "nat").do(false, "-A OUTPUT -j RETURN")
		}},
		{name: "asked for", want: Legacy, found: "ip6tables-legacy-restore", host: func(c *commands) { hint(c, "iptables-nft") }},
		{name: "only nft", missing: []string{"iptables-legacy"}, found: "ip6tables-nft-restore"},
		{name: "neither in the name", missing: []string{"iptables-legacy", "iptables-nft"}, found: "ip6tables-restore"},
		{name: "asked for what is not there", missing: []string{"iptables-legacy"}, want: Legacy, err: "set Variant to nft"},
		{name: "no iptables", missing: []string{"iptables"}, err: "install iptables"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCommands(tt.missing...)
			if tt.host != nil {
				tt.host(c)
			}
			found, err := detector{c}.find(t.Context(), tt.want, []proxier.Family{proxier.IPv6})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("find = %v, want %q", err, tt.err)
			}
			if got := found[proxier.IPv6].restore; got != tt.found {
				t.Errorf("it uses %q, want %q", got, tt.found)
			}
		})
	}
}
