package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// lines prints a view, one element a line.
func (v view) lines() []string {
	var out []string
	for _, e := range v.elements {
		out = append(out, e.String())
	}
	for _, l := range v.lists {
		for i := range l.slots {
			out = append(out, l.element(i).String())
		}
	}
	for _, e := range v.shared {
		out = append(out, "shared "+e.String())
	}
	for _, p := range v.pinned {
		out = append(out, fmt.Sprintf("chain %s pins clients of %d for %s to %d slots, then %s",
			p.chain, p.client, p.timeout, p.width, p.fallback))
	}
	return out
}

func TestRender(t *testing.T) {
	two := []option{on("10.244.1.11:8080"), far("10.244.2.15:8080")}
	for _, tt := range []struct {
		name   string
		port   *proxier.ServicePort
		policy policy
		want   string
	}{
		{
			name: "cluster IP", policy: masqueradeForeign,
			port: service("web", proxier.TCP, "10.96.0.10:80", two...),
			want: `
services { 10.96.0.10 . tcp . 80 : goto cluster-lb-2 }
endpoints { 10.96.0.10 . tcp . 80 . 0 : 10.244.1.11 . 8080 }
endpoints { 10.96.0.10 . tcp . 80 . 1 : 10.244.2.15 . 8080 }
shared cluster-ips { 10.96.0.10 }
shared hairpin { 10.244.1.11 . 10.244.1.11 . tcp . 8080 }`,
		},
		{
			name: "cluster IP over IPv6 by UDP, nothing masqueraded",
			port: service("dns", proxier.UDP, "[fd00:96::a]:53", far("[fd00:2::15]:5353")),
			want: `
services { fd00:96::a . udp . 53 : goto lb-1 }
endpoints { fd00:96::a . udp . 53 . 0 : fd00:2::15 . 5353 }
shared cluster-ips { fd00:96::a }`,
		},
		{
			name: "cluster IP by SCTP, everything masqueraded", policy: masqueradeAll,
			port: service("sctp", proxier.SCTP, "10.96.0.10:80", far("10.244.2.15:8080")),
			want: `
services { 10.96.0.10 . sctp . 80 : goto external-lb-1 }
endpoints { 10.96.0.10 . sctp . 80 . 0 : 10.244.2.15 . 8080 }
shared cluster-ips { 10.96.0.10 }`,
		},
		{
			name: "no endpoint anywhere",
			port: service("none", proxier.TCP, "10.96.0.20:80", at(proxier.NodePort, "", 30020)),
			want: `
no-endpoints { 10.96.0.20 . tcp . 80 : goto reject }
nodeport-no-endpoints { tcp . 30020 : goto reject }
shared cluster-ips { 10.96.0.20 }`,
		},
		{
			name: "internal policy Local, no endpoint here",
			port: service("internal", proxier.TCP, "10.96.0.21:80", far("10.244.2.15:8080"), internalPolicyLocal,
				at(proxier.NodePort, "", 30021)),
			want: `
no-endpoints { 10.96.0.21 . tcp . 80 : drop }
nodeport-services { tcp . 30021 : goto nodeport-external-lb-1 }
nodeport-endpoints { tcp . 30021 . 0 : 10.244.2.15 . 8080 }
shared cluster-ips { 10.96.0.21 }`,
		},
		{
			name: "external policy Local", policy: masqueradeForeign,
			port: service("local", proxier.TCP, "10.96.0.70:80", append(two, externalPolicyLocal,
				at(proxier.NodePort, "", 30070))...),
			want: `
services { 10.96.0.70 . tcp . 80 : goto cluster-lb-2 }
nodeport-services { tcp . 30070 : goto nodeport-policy-local }
nodeport-short-circuit { tcp . 30070 : goto nodeport-lb-2 }
nodeport-local-services { tcp . 30070 : goto nodeport-local-lb-1 }
endpoints { 10.96.0.70 . tcp . 80 . 0 : 10.244.1.11 . 8080 }
endpoints { 10.96.0.70 . tcp . 80 . 1 : 10.244.2.15 . 8080 }
nodeport-endpoints { tcp . 30070 . 0 : 10.244.1.11 . 8080 }
nodeport-endpoints { tcp . 30070 . 1 : 10.244.2.15 . 8080 }
nodeport-local-endpoints { tcp . 30070 . 0 : 10.244.1.11 . 8080 }
shared cluster-ips { 10.96.0.70 }
shared hairpin { 10.244.1.11 . 10.244.1.11 . tcp . 8080 }`,
		},
		{
			name: "load balancer address with source ranges",
			port: service("lb", proxier.TCP, "10.96.0.50:80", far("10.244.2.15:8080"),
				at(proxier.LoadBalancer, "192.0.2.70", 80), sources("198.51.100.0/24")),
			want: `
services { 10.96.0.50 . tcp . 80 : goto lb-1 }
firewall-vips { 192.0.2.70 . tcp . 80 }
firewall-sources { 192.0.2.70 . tcp . 80 . 198.51.100.0/24 }
services { 192.0.2.70 . tcp . 80 : goto external-lb-1 }
endpoints { 10.96.0.50 . tcp . 80 . 0 : 10.244.2.15 . 8080 }
endpoints { 192.0.2.70 . tcp . 80 . 0 : 10.244.2.15 . 8080 }
shared cluster-ips { 10.96.0.50 }`,
		},
		{
			name: "session affinity at two kinds of frontends", policy: masqueradeForeign,
			port: service("sticky", proxier.TCP, "10.96.0.60:80", far("10.244.2.15:8080"), sticky(time.Hour),
				at(proxier.NodePort, "", 30060)),
			want: `
affinity-slots { 65536 : 10.244.2.15 . 8080 }
services { 10.96.0.60 . tcp . 80 : goto cluster-affinity-1 }
nodeport-services { tcp . 30060 : goto nodeport-external-affinity-1 }
endpoints { 10.96.0.60 . tcp . 80 . 0 : 10.244.2.15 . 8080 }
nodeport-endpoints { tcp . 30060 . 0 : 10.244.2.15 . 8080 }
shared cluster-ips { 10.96.0.60 }
chain affinity-1 pins clients of 1 for 1h0m0s to 1 slots, then lb-1
chain nodeport-affinity-1 pins clients of 1 for 1h0m0s to 1 slots, then nodeport-lb-1`,
		},
		{
			name: "session affinity under both policies Local: one list, two ways on",
			port: service("sticky", proxier.TCP, "10.96.0.60:80", on("10.244.1.11:8080"), sticky(time.Hour),
				internalPolicyLocal, externalPolicyLocal, at(proxier.ExternalIP, "192.0.2.60", 80)),
			want: `
affinity-slots { 131072 : 10.244.1.11 . 8080 }
services { 10.96.0.60 . tcp . 80 : goto affinity-2 }
services { 192.0.2.60 . tcp . 80 : goto policy-local }
affinity-slots { 65536 : 10.244.1.11 . 8080 }
short-circuit { 192.0.2.60 . tcp . 80 : goto affinity-1 }
local-services { 192.0.2.60 . tcp . 80 : goto local-affinity-2 }
endpoints { 10.96.0.60 . tcp . 80 . 0 : 10.244.1.11 . 8080 }
endpoints { 192.0.2.60 . tcp . 80 . 0 : 10.244.1.11 . 8080 }
local-endpoints { 192.0.2.60 . tcp . 80 . 0 : 10.244.1.11 . 8080 }
shared cluster-ips { 10.96.0.60 }
shared hairpin { 10.244.1.11 . 10.244.1.11 . tcp . 8080 }
chain affinity-2 pins clients of 2 for 1h0m0s to 1 slots, then lb-1
chain affinity-1 pins clients of 1 for 1h0m0s to 1 slots, then lb-1
chain local-affinity-2 pins clients of 2 for 1h0m0s to 1 slots, then local-lb-1`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(render(entryOf(t, tt.port), tt.policy).lines(), "\n")
			if diff := cmp.Diff(strings.TrimSpace(tt.want), got); diff != "" {
				t.Errorf("elements (-want +got):\n%s", diff)
			}
		})
	}
	if got := render(nil, masqueradeAll).lines(); len(got) != 0 {
		t.Errorf("elements of nothing: %q", got)
	}
}

// entryOf returns the entry that a fresh Backend makes of port.
func entryOf(tb testing.TB, port *proxier.ServicePort) *entry {
	tb.Helper()
	b, err := New(Config{Problem: func(p Problem) { tb.Errorf("problem: %s", p) }})
	if err != nil {
		tb.Fatal(err)
	}
	return b.newEntry(nil, port)
}

func TestEncodedElements(t *testing.T) {
	name := func(c chain) string { return "g7/" + c.String() }
	v4, v6 := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:96::a")
	for _, tt := range []struct {
		name              string
		e                 element
		key, end, val, to string
	}{
		{
			name: "endpoint", val: "0af4010b1f900000",
			e: element{
				in: endpoints, key: key{addr: v4, proto: proxier.TCP, port: 80}.slot(0),
				value: value{ep: netip.MustParseAddrPort("10.244.1.11:8080")},
			},
			key: "0a60000a" + "06000000" + "00500000" + "00000000",
		},
		{
			name: "class over IPv6", val: fmt.Sprintf("%x", nativeEndian(0x02000003)),
			e: element{
				in: services, key: key{addr: v6, proto: proxier.UDP, port: 53},
				value: value{to: chain{kind: balance, n: 3}},
			},
			key: "fd00009600000000000000000000000a" + "11000000" + "00350000",
		},
		{
			name: "node port",
			e:    element{in: nodePortNoEndpoints, key: key{proto: proxier.SCTP, port: 30080}, value: value{to: chain{kind: dropVerdict}}},
			key:  "84000000" + "75800000", val: fmt.Sprintf("%x", nativeEndian(0x01000000)),
		},
		{
			name: "chain of a class", to: "g7/nodeport-lb-5",
			e: element{in: classes, key: key{number: chain{kind: balance, space: byNodePort, n: 5}.number()}, value: value{
				to: chain{kind: balance, space: byNodePort, n: 5},
			}},
			key: fmt.Sprintf("%x", nativeEndian(0x02800005)),
		},
		{
			name: "range of sources",
			e: element{in: firewallSources, key: key{
				addr: v4, proto: proxier.TCP, port: 80, source: netip.MustParsePrefix("198.51.96.0/20"),
			}},
			key: "0a60000a" + "06000000" + "00500000" + "c6336000",
			end: "0a60000a" + "06000000" + "00500000" + "c6336fff",
		},
		{
			name: "connection of a pod to itself",
			e:    element{in: hairpin, key: key{addr: v4, proto: proxier.TCP, port: 80}},
			key:  "0a60000a" + "0a60000a" + "06000000" + "00500000",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.e.setElement(name)
			got := []string{fmt.Sprintf("%x", s.Key), fmt.Sprintf("%x", s.KeyEnd), fmt.Sprintf("%x", s.Val), ""}
			if s.VerdictData != nil {
				got[3] = s.VerdictData.Chain
			}
			if diff := cmp.Diff([]string{tt.key, tt.end, tt.val, tt.to}, got); diff != "" {
				t.Errorf("key, end, value, chain (-want +got):\n%s", diff)
			}
		})
	}
}
