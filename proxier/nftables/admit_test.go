package nftables

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestAdmit(t *testing.T) {
	web := func(opts ...option) *proxier.ServicePort {
		return service("web", proxier.TCP, "10.96.0.10:80", opts...)
	}
	range4, range6 := netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")
	for _, tt := range []struct {
		name     string
		in, want *proxier.ServicePort
		problems []string
	}{
		{name: "nothing wrong", in: web(both4...), want: web(both4...)},
		{
			name:     "a way to spread connections",
			in:       web(func(p *proxier.ServicePort) { p.Balance.Scheduler = "lc" }),
			want:     web(func(p *proxier.ServicePort) { p.Balance.Scheduler = "lc" }),
			problems: []string{"Balance"},
		},
		{
			name:     "frontend of the other family",
			in:       web(at(proxier.ExternalIP, "2001:db8::1", 80)),
			want:     web(),
			problems: []string{"Frontends[1]"},
		},
		{
			name: "IPv4 addresses in IPv6 form",
			in:   web(at(proxier.ExternalIP, "::ffff:192.0.2.1", 80), far("[::ffff:10.0.0.1]:80")),
			want: web(at(proxier.ExternalIP, "192.0.2.1", 80), far("10.0.0.1:80")),
		},
		{
			name:     "frontend twice in two forms",
			in:       web(at(proxier.ExternalIP, "::ffff:10.96.0.10", 80)),
			want:     web(),
			problems: []string{"Frontends[1]"},
		},
		{
			name:     "range of more than IPv4 in IPv6 form",
			in:       web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources("::ffff:10.0.0.0/64", "198.51.100.0/24")),
			want:     web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources("198.51.100.0/24")),
			problems: []string{"SourceRanges[0]"},
		},
		{
			name:     "frontend twice, port 0, node port with an address, unknown kind",
			in:       web(at(proxier.ExternalIP, "10.96.0.10", 80), at(proxier.ClusterIP, "10.96.0.10", 0), at(proxier.NodePort, "10.0.0.1", 30000), at(9, "10.0.0.1", 1)),
			want:     web(),
			problems: []string{"Frontends[1]", "Frontends[2]", "Frontends[3]", "Frontends[4]"},
		},
		{
			name:     "endpoints of the other family and without port",
			in:       web(far("[fd00::1]:80", "10.0.0.1:0", "10.0.0.2:80")),
			want:     web(far("10.0.0.2:80")),
			problems: []string{"Cluster[0]", "Cluster[2]"},
		},
		{
			name: "endpoint twice",
			in:   web(on("10.0.0.2:80", "10.0.0.2:80")),
			want: web(on("10.0.0.2:80")),
		},
		{
			name: "ranges inside others",
			in:   web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources("198.51.100.7/32", "198.51.100.9/24")),
			want: web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources("198.51.100.0/24")),
		},
		{
			name: "ranges that admit the node admit the address itself",
			in:   web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources("10.0.0.0/8")),
			want: web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources("10.0.0.0/8", "192.0.2.1/32")),
		},
		{
			name:     "one range of the other family",
			in:       web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources(range6.String(), range4.String())),
			want:     web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources(range4.String())),
			problems: []string{"SourceRanges[0]"},
		},
		{
			name:     "no valid range admits nobody",
			in:       web(at(proxier.LoadBalancer, "192.0.2.1", 80), sources(range6.String())),
			want:     web(),
			problems: []string{"SourceRanges[0]", "SourceRanges"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var problems []string
			before := *tt.in
			got := admit(tt.in, []netip.Addr{netip.MustParseAddr("10.0.0.2")}, func(p Problem) {
				problems = append(problems, p.Field)
				if p.Reason == "" || p.Key != tt.in.Key {
					t.Errorf("problem without reason or key: %s", p)
				}
			})
			if diff := cmp.Diff(tt.want, got, plainNetip(), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(proxier.ServicePort{}, "HasEndpoints")); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.problems, problems); diff != "" {
				t.Errorf("fields with problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, *tt.in, plainNetip()); diff != "" {
				t.Errorf("the input changed (-want +got):\n%s", diff)
			}
			if tt.problems == nil && tt.name == "nothing wrong" && got != tt.in {
				t.Error("a valid ServicePort was copied")
			}
		})
	}
}

func plainNetip() cmp.Option {
	return cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{})
}

// FuzzAdmit checks that what is admitted has the families, ports and disjoint
// ranges that the kernel insists on, whatever comes in.
func FuzzAdmit(f *testing.F) {
	f.Add([]byte{10, 0, 0, 1}, uint16(80), uint8(24), []byte{10, 0, 1, 1}, uint8(4))
	f.Add([]byte{32, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, uint16(0), uint8(64), []byte{}, uint8(6))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1}, uint16(1), uint8(120), []byte{10, 0, 0, 1}, uint8(4))
	f.Add([]byte{10, 0, 48, 48}, uint16(80), uint8(24), []byte{10, 0, 48, 48}, uint8(5))
	f.Fuzz(func(t *testing.T, rawA []byte, port uint16, bits uint8, rawB []byte, family uint8) {
		a, _ := netip.AddrFromSlice(rawA)
		b, _ := netip.AddrFromSlice(rawB)
		ep := func(a netip.Addr) proxier.Endpoint { return proxier.Endpoint{Addr: netip.AddrPortFrom(a, port)} }
		p := &proxier.ServicePort{
			Key: proxier.Key{Family: proxier.Family(family), PortName: proxier.PortName{Protocol: proxier.TCP}},
			Frontends: []proxier.Frontend{
				{Kind: proxier.ClusterIP, Addr: a, Port: port},
				{Kind: proxier.LoadBalancer, Addr: b, Port: port},
			},
			Cluster:      []proxier.Endpoint{ep(a), ep(b), ep(a)},
			Local:        []proxier.Endpoint{ep(b)},
			SourceRanges: []netip.Prefix{netip.PrefixFrom(a, int(bits)), netip.PrefixFrom(b, int(bits/2))},
		}
		got := admit(p, []netip.Addr{a, b}, func(Problem) {})
		want4 := got.Key.Family == proxier.IPv4
		for _, fe := range got.Frontends {
			if fe.Addr.Is4() != want4 || fe.Port == 0 {
				t.Errorf("admitted frontend %v of %v", fe, got.Key.Family)
			}
		}
		for i, e := range append(got.Cluster, got.Local...) {
			if e.Addr.Addr().Is4() != want4 || e.Addr.Port() == 0 {
				t.Errorf("admitted endpoint %d %v of %v", i, e, got.Key.Family)
			}
		}
		for i, r := range got.SourceRanges {
			for _, s := range got.SourceRanges[:i] {
				if r.Overlaps(s) {
					t.Errorf("admitted overlapping ranges %v and %v", r, s)
				}
			}
		}
	})
}
