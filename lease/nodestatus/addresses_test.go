package nodestatus_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// host is a Host.
type host struct {
	addrs, dns []string
	v4, v6     string
}

func parse(addrs []string) []netip.Addr {
	var parsed []netip.Addr
	for _, a := range addrs {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return parsed
}

func (h host) Addrs() ([]netip.Addr, error) { return parse(h.addrs), nil }

func (h host) Lookup(context.Context, string) ([]netip.Addr, error) {
	if h.dns == nil {
		return nil, errors.New("no such host")
	}
	return parse(h.dns), nil
}

func (h host) Source(ipv6 bool) (netip.Addr, error) {
	s := h.v4
	if ipv6 {
		s = h.v6
	}
	if s == "" {
		return netip.Addr{}, errors.New("no route")
	}
	return netip.MustParseAddr(s), nil
}

func TestAddresses(t *testing.T) {
	machine := host{addrs: []string{"127.0.0.1", "10.0.0.2", "2001:db8::2", "fe80::1"}, v4: "10.0.0.2", v6: "2001:db8::2"}
	withDNS := machine
	withDNS.dns = []string{"127.0.1.1", "192.0.2.9", "2001:db8::2", "10.0.0.2"}
	tests := []struct {
		name  string
		rules nodestatus.AddressRules
		host  host
		want  string
		err   string
	}{
		{"route", nodestatus.AddressRules{}, machine, "InternalIP 10.0.0.2 Hostname node-a", ""},
		{"route by IPv6", nodestatus.AddressRules{NodeIPs: parse([]string{"::"})}, machine, "InternalIP 2001:db8::2 Hostname node-a", ""},
		{"name in DNS", nodestatus.AddressRules{}, withDNS, "InternalIP 10.0.0.2 Hostname node-a", ""},
		{"name in DNS by IPv6", nodestatus.AddressRules{NodeIPs: parse([]string{"::"})}, withDNS, "InternalIP 2001:db8::2 Hostname node-a", ""},
		{"other family in DNS", nodestatus.AddressRules{}, host{addrs: machine.addrs, dns: []string{"2001:db8::2"}}, "InternalIP 2001:db8::2 Hostname node-a", ""},
		{"IPv6 alone", nodestatus.AddressRules{}, host{v6: "2001:db8::2"}, "InternalIP 2001:db8::2 Hostname node-a", ""},
		{"IPv4 alone, asked for the other", nodestatus.AddressRules{NodeIPs: parse([]string{"::"})}, host{v4: "10.0.0.2"}, "InternalIP 10.0.0.2 Hostname node-a", ""},
		{"no IPv6 address but a link-local one", nodestatus.AddressRules{}, host{v6: "fe80::1"}, "", "is a link-local address"},
		{"hostname is an address", nodestatus.AddressRules{Hostname: "10.9.9.9"}, machine, "InternalIP 10.9.9.9 Hostname 10.9.9.9", ""},
		{"node IP", nodestatus.AddressRules{NodeIPs: parse([]string{"2001:db8::2"})}, machine, "InternalIP 2001:db8::2 Hostname node-a", ""},
		{"both families", nodestatus.AddressRules{NodeIPs: parse([]string{"10.0.0.2", "2001:db8::2"})}, machine, "InternalIP 10.0.0.2 InternalIP 2001:db8::2 Hostname node-a", ""},
		{"cloud", nodestatus.AddressRules{CloudProvider: true}, machine, "Hostname node-a", ""},
		{"cloud with node IP", nodestatus.AddressRules{CloudProvider: true, NodeIPs: parse([]string{"10.0.0.2"})}, machine, "InternalIP 10.0.0.2 Hostname node-a", ""},
		{"cloud with a family", nodestatus.AddressRules{CloudProvider: true, NodeIPs: parse([]string{"0.0.0.0"})}, machine, "InternalIP 10.0.0.2 Hostname node-a", ""},
		{"no way out", nodestatus.AddressRules{}, host{}, "", "--node-ip can name"},
		{"foreign", nodestatus.AddressRules{NodeIPs: parse([]string{"10.0.0.3"})}, machine, "", "node IP 10.0.0.3 is not an address of this machine"},
		{"loopback", nodestatus.AddressRules{NodeIPs: parse([]string{"127.0.0.1"})}, machine, "", "is a loopback address"},
		{"link-local", nodestatus.AddressRules{NodeIPs: parse([]string{"fe80::1"})}, machine, "", "is a link-local address"},
		{"multicast", nodestatus.AddressRules{NodeIPs: parse([]string{"224.0.0.1"})}, machine, "", "is a multicast address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rules.Name = "node-a"
			got, err := tt.rules.Addresses(t.Context(), tt.host)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, words(got)); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateAddressRules(t *testing.T) {
	tests := []struct {
		name string
		ips  []string
		want string
	}{
		{"none", nil, ""},
		{"a family", []string{"::"}, ""},
		{"of some machine", []string{"10.0.0.3", "2001:db8::3"}, ""},
		{"loopback", []string{"127.0.0.1"}, "node IP 127.0.0.1 is a loopback address"},
		{"second one", []string{"10.0.0.3", "fe80::1"}, "node IP fe80::1 is a link-local address"},
		{"multicast", []string{"224.0.0.1"}, "node IP 224.0.0.1 is a multicast address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := nodestatus.AddressRules{NodeIPs: parse(tt.ips)}.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func words(addresses []corev1.NodeAddress) string {
	var w []string
	for _, a := range addresses {
		w = append(w, string(a.Type), a.Address)
	}
	return strings.Join(w, " ")
}

func TestProvidedIPs(t *testing.T) {
	ips := parse([]string{"10.0.0.2", "2001:db8::2"})
	if got, want := (nodestatus.AddressRules{NodeIPs: ips, CloudProvider: true}).Provided(), "10.0.0.2,2001:db8::2"; got != want {
		t.Errorf("Provided = %q, want %q", got, want)
	}
	if got := (nodestatus.AddressRules{NodeIPs: ips}).Provided(); got != "" {
		t.Errorf("Provided without a cloud = %q, want nothing", got)
	}
}

func TestNodeIPs(t *testing.T) {
	tests := []struct {
		in   string
		want []netip.Addr
		err  string
	}{
		{"", nil, ""},
		{"10.0.0.2", parse([]string{"10.0.0.2"}), ""},
		{"::ffff:10.0.0.2, 2001:db8::2", parse([]string{"10.0.0.2", "2001:db8::2"}), ""},
		{"x", nil, `node IP "x" is no IP address`},
		{"10.0.0.2,10.0.0.3", nil, "of one family"},
		{"10.0.0.2,::", nil, "both have to be addresses"},
		{"10.0.0.2,::1,::2", nil, "3 node IPs"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := nodestatus.ParseNodeIPs(tt.in)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThisHostKnowsItsAddresses(t *testing.T) {
	addrs, err := nodestatus.ThisHost{}.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	if src, err := (nodestatus.ThisHost{}).Source(false); err == nil {
		found := false
		for _, a := range addrs {
			found = found || a == src
		}
		if !found {
			t.Errorf("the way to the world begins at %s, which is none of %v", src, addrs)
		}
	}
}
