//go:build linux

package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// resetIn makes ports what is in force, in a network.
func resetIn(t *testing.T, b *Backend, n proxier.Network, ports ...*proxier.ServicePort) {
	t.Helper()
	if err := b.Reset(t.Context(), &proxier.State{Ports: ports, Network: n}); err != nil {
		t.Fatal(err)
	}
}

func TestKernelUnassignedClusterIPsDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{Local: podNet()})
	web := service("web", proxier.TCP, "10.96.0.10:80", on("10.244.1.11:8080"))
	resetIn(t, b, proxier.Network{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}, web)
	for at, want := range map[string]string{
		"10.96.0.10:80": "10.244.1.11:8080",
		"10.96.0.10:81": "refused", // an unknown port of a known cluster IP
		"10.96.9.9:80":  "timeout",
	} {
		if got := ask(t, w.pod2, "tcp", at).from; got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	// A range that is no longer one of cluster IPs is routed like any other.
	resetIn(t, b, proxier.Network{}, web)
	list := listing(t, w.node)
	if strings.Contains(list, "10.96.0.0/16") {
		t.Errorf("the range is still dropped:\n%s", list)
	}
}

// Addresses of the node and the ranges of its pods come and change without another
// process.
func TestKernelNetworkChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{Local: Local{NodeCIDRs: true}, NodePortPrimary: true})
	web := service("web", proxier.TCP, "10.96.0.10:80", on("10.244.1.11:8080"), at(proxier.NodePort, "", 30080))
	first := proxier.Network{NodeAddrs: []netip.Addr{netip.MustParseAddr("198.51.100.1")}}
	resetIn(t, b, first, web)
	if got := ask(t, w.client, "tcp", "198.51.100.1:30080").from; got != "10.244.1.11:8080" {
		t.Errorf("node port at the primary address: %s", got)
	}
	if got := ask(t, w.client, "tcp", "10.244.1.1:30080").from; got != "refused" {
		t.Errorf("node port at another address of the node: %s, want refused", got)
	}
	if got := ask(t, w.client, "tcp", "10.96.0.10:80"); got.source != netip.MustParseAddr("198.51.100.7") {
		t.Errorf("without ranges of pods the source is %s, want the client's", got.source)
	}
	second := proxier.Network{
		NodeAddrs: []netip.Addr{netip.MustParseAddr("10.244.1.1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
	}
	resetIn(t, b, second, web)
	if got := ask(t, w.client, "tcp", "10.244.1.1:30080").from; got != "10.244.1.11:8080" {
		t.Errorf("node port at the new primary address: %s", got)
	}
	if got := ask(t, w.client, "tcp", "198.51.100.1:30080").from; got != "refused" {
		t.Errorf("node port at the old primary address: %s, want refused", got)
	}
	if got := ask(t, w.client, "tcp", "10.96.0.10:80"); got.source != netip.MustParseAddr("10.244.1.1") {
		t.Errorf("with ranges of pods the source of a foreign client is %s, want the node's", got.source)
	}
	if got := ask(t, w.pod2, "tcp", "10.96.0.10:80"); got.source != netip.MustParseAddr("10.244.1.12") {
		t.Errorf("the source of a pod is %s, want its own", got.source)
	}
}

// Names as long as the API admits, hundreds of ports, invalid endpoints: others work.
func TestKernelOddServicesRejectNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	problems := 0
	b := newBackend(t, w.node, Config{Local: podNet(), Problem: func(Problem) { problems++ }})
	var ports []*proxier.ServicePort
	for i := range 300 {
		p := service(strings.Repeat("n", 253), proxier.TCP, fmt.Sprintf("10.96.1.1:%d", 1000+i), far("10.244.2.15:8080"))
		p.Key.Namespace, p.Key.Port = strings.Repeat("s", 253), fmt.Sprintf("%s-%03d", strings.Repeat("p", 59), i)
		ports = append(ports, p)
	}
	odd := service("odd", proxier.TCP, "10.96.1.2:80", far("10.244.2.15:8080"))
	odd.Cluster = append(odd.Cluster, proxier.Endpoint{Addr: netip.MustParseAddrPort("[fd00::1]:80")}, proxier.Endpoint{})
	ports = append(ports, odd, service("web", proxier.TCP, "10.96.0.10:80", on("10.244.1.11:8080")))
	reset(t, b, ports...)
	for at, want := range map[string]string{
		"10.96.0.10:80": "10.244.1.11:8080", "10.96.1.1:1299": "10.244.2.15:8080", "10.96.1.2:80": "10.244.2.15:8080",
	} {
		if got := ask(t, w.pod2, "tcp", at).from; got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	if problems != 2 {
		t.Errorf("%d problems were told, want 2", problems)
	}
}
