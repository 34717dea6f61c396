package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

func ipv4(cfg Config) Config {
	cfg.Families, cfg.Variant = []proxier.Family{proxier.IPv4}, NFT
	return cfg
}

// TestApplyWritesOnlyWhatChanged holds the exact input of iptables-restore.
func TestApplyWritesOnlyWhatChanged(t *testing.T) {
	a := servicePort("a", "10.96.0.1", "10.244.0.1:80")
	b := servicePort("b", "10.96.0.2", "10.244.0.2:80", "10.244.0.3:80")
	tests := []struct {
		name  string
		delta proxier.Delta
		want  string
	}{
		{"one endpoint more", update(servicePort("a", "10.96.0.1", "10.244.0.1:80", "10.244.0.9:80")), `*nat
:KUBE-SVC-PDNTG4S5GI55M4RT - [0:0]
:KUBE-SEP-DIXXDZIYEBTTJB34 - [0:0]
-A KUBE-SVC-PDNTG4S5GI55M4RT -m comment --comment "ns/a:http -> 10.244.0.1:80" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-WQTJNVWSUNEDOZ5C
-A KUBE-SVC-PDNTG4S5GI55M4RT -m comment --comment "ns/a:http -> 10.244.0.9:80" -j KUBE-SEP-DIXXDZIYEBTTJB34
-A KUBE-SEP-DIXXDZIYEBTTJB34 -s 10.244.0.9/32 -m comment --comment "ns/a:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-DIXXDZIYEBTTJB34 -p tcp -m comment --comment "ns/a:http" -m tcp -j DNAT --to-destination 10.244.0.9:80
COMMIT
`},
		{"no endpoints any more", update(servicePort("a", "10.96.0.1")), `*filter
-I KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "ns/a:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:KUBE-SVC-PDNTG4S5GI55M4RT - [0:0]
:KUBE-SEP-WQTJNVWSUNEDOZ5C - [0:0]
-D KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "ns/a:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-PDNTG4S5GI55M4RT
-X KUBE-SVC-PDNTG4S5GI55M4RT
-X KUBE-SEP-WQTJNVWSUNEDOZ5C
COMMIT
`},
		{"a Service more", update(servicePort("c", "10.96.0.3")), `*filter
-I KUBE-SERVICES -d 10.96.0.3/32 -p tcp -m comment --comment "ns/c:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
`},
		{"the same again", update(servicePort("a", "10.96.0.1", "10.244.0.1:80")), ""},
		{"an unknown one goes", remove(servicePort("z", "10.96.0.9")), ""},
		{"another order of endpoints", update(servicePort("b", "10.96.0.2", "10.244.0.3:80", "10.244.0.2:80")), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCommands()
			be := newFake(t, c, ipv4(Config{}))
			mustReset(t, be, a, b)
			c.restored()
			mustApply(t, be, tt.delta)
			for _, name := range c.names() {
				if strings.HasSuffix(name, "-save") {
					t.Errorf("Apply lists the rules")
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(c.restored(), "")); diff != "" {
				t.Errorf("input of iptables-restore (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyCostsTheSameAmongManyServices(t *testing.T) {
	size := func(n int) int {
		c := newCommands()
		be := newFake(t, c, ipv4(Config{}))
		var all []*proxier.ServicePort
		for i := range n {
			all = append(all, servicePort(fmt.Sprintf("many-%d", i), fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), "10.244.0.1:80"))
		}
		first := servicePort("first", "10.96.0.1", "10.244.0.1:80")
		mustReset(t, be, append(all, first)...)
		c.restored()
		mustApply(t, be, update(servicePort("first", "10.96.0.1", "10.244.0.2:80")))
		return len(strings.Join(c.restored(), ""))
	}
	if few, many := size(1), size(500); few != many {
		t.Errorf("a changed Service is %d bytes among 500 others, %d beside one", many, few)
	}
}

// Of many rules that go at once, each would make iptables read the whole chain.
func TestManyDeletesWriteTheChainAsAWhole(t *testing.T) {
	c := newCommands()
	be := newFake(t, c, ipv4(Config{}))
	var all []*proxier.ServicePort
	for i := range 2 * fewDeletes {
		all = append(all, servicePort(fmt.Sprintf("s-%d", i), fmt.Sprintf("10.96.0.%d", i+1), "10.244.0.1:80"))
	}
	mustReset(t, be, all...)
	c.restored()
	mustApply(t, be, remove(all[:fewDeletes+1]...))
	got := strings.Join(c.restored(), "")
	if strings.Contains(got, "-D ") || !strings.Contains(got, ":KUBE-SERVICES - [0:0]\n") {
		t.Errorf("the chain is not written as a whole:\n%s", got)
	}
	fresh := newCommands()
	mustReset(t, newFake(t, fresh, ipv4(Config{})), all[fewDeletes+1:]...)
	if diff := cmp.Diff(fresh.rulesOf("iptables-nft"), c.rulesOf("iptables-nft")); diff != "" {
		t.Errorf("rules differ from a fresh start (-want +got):\n%s", diff)
	}
	services := strings.Split(c.save("iptables-nft"), "\n")
	for i, line := range services {
		if strings.Contains(line, "this must be the last rule") && strings.HasPrefix(services[i+1], "-A KUBE-SERVICES") {
			t.Errorf("after the rule for node ports comes %s", services[i+1])
		}
	}
}

func TestMoreThanAThousandEndpointsHaveNoComments(t *testing.T) {
	c := newCommands()
	be := newFake(t, c, ipv4(Config{}))
	many := servicePort("many", "10.96.0.1")
	many.HasEndpoints = true
	for i := range manyEndpoints {
		many.Cluster = append(many.Cluster, proxier.Endpoint{
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), 80),
		})
	}
	mustReset(t, be, many)
	if text := strings.Join(c.restored(), ""); !strings.Contains(text, `"ns/many:http -> 10.244.0.0:80"`) {
		t.Error("a thousand endpoints have no comments")
	}
	mustApply(t, be, update(servicePort("one", "10.96.0.2", "10.245.0.1:80")))
	text := strings.Join(c.restored(), "")
	if !strings.Contains(text, "--to-destination 10.245.0.1:80") || strings.Contains(text, "10.245.0.1:80\"") || strings.Contains(text, `"ns/one:http"`) {
		t.Errorf("the endpoint that makes it more has comments:\n%s", text)
	}
	if !strings.Contains(text, `"ns/one:http cluster IP"`) {
		t.Errorf("the Service has no comment:\n%s", text)
	}
}
