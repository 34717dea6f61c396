//go:build linux

package nftables

import (
	"net/netip"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

var (
	nodeSide   = netip.MustParseAddr("10.244.2.1")
	clientAddr = netip.MustParseAddr("198.51.100.7")
)

func TestKernelExternalFrontendsServeAllEndpointsMasqueraded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	// No cluster IP: a Service with a node port and two external addresses.
	external := func(opts ...option) *proxier.ServicePort {
		return service("web", proxier.TCP, "10.96.0.40:80", append(opts,
			at(proxier.NodePort, "", 30080), at(proxier.ExternalIP, "192.0.2.71", 80), at(proxier.LoadBalancer, "192.0.2.70", 80))...)
	}
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b, external(far("10.244.2.15:8080")))
	addrs := []string{"10.0.0.2:30080", "192.0.2.71:80", "192.0.2.70:80"}
	for _, addr := range addrs {
		for from, ns := range map[string]*netnstest.NS{"client": w.client, "node": w.node, "pod": w.pod1} {
			want := answer{"10.244.2.15:8080", nodeSide}
			if got := ask(t, ns, "tcp", addr); got != want {
				t.Errorf("%s to %s: got %v, want %v", from, addr, got, want)
			}
		}
	}
	update(t, b, external())
	for _, addr := range addrs {
		if got := ask(t, w.client, "tcp", addr); got.from != "refused" {
			t.Errorf("without endpoints, client to %s: got %v, want refused", addr, got)
		}
	}
	if got := ask(t, w.node, "tcp", "127.0.0.1:30080"); got.from != "refused" {
		t.Errorf("node port at loopback: got %v, want what there is without it: refused", got)
	}
}

func TestKernelNodePortAnswersAtTheConfiguredAddressesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{NodePortAddresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}})
	reset(t, b, service("web", proxier.TCP, "10.96.0.40:80", on("10.244.1.11:8080"), at(proxier.NodePort, "", 30080)))
	for addr, want := range map[string]string{
		"10.0.0.2:30080":     "10.244.1.11:8080",
		"198.51.100.1:30080": "refused",
	} {
		if got := ask(t, w.client, "tcp", addr); got.from != want {
			t.Errorf("client to %s: got %v, want %s", addr, got, want)
		}
	}
}

// With externalTrafficPolicy Local and no endpoint here, the node and its pods
// still reach the Service through its external addresses; others are dropped.
func TestKernelExternalPolicyLocalWithoutALocalEndpoint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		cfg     Config
		podWant answer
	}{
		{"pods detected", Config{Local: podNet()}, answer{"10.244.2.15:8080", netip.MustParseAddr("10.244.1.12")}},
		{"nothing detected", Config{}, answer{from: "timeout"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			serveBoth(t, w)
			b := newBackend(t, w.node, tt.cfg)
			reset(t, b, localOnly(far("10.244.2.15:8080")))
			for _, addr := range []string{"192.0.2.70:80", "192.0.2.71:80", "10.0.0.2:30070"} {
				if got := ask(t, w.pod2, "tcp", addr); got != tt.podWant {
					t.Errorf("pod to %s: got %v, want %v", addr, got, tt.podWant)
				}
				want := answer{"10.244.2.15:8080", nodeSide}
				if got := ask(t, w.node, "tcp", addr); got != want {
					t.Errorf("node to %s: got %v, want %v", addr, got, want)
				}
				if got := ask(t, w.client, "tcp", addr).from; got != "timeout" {
					t.Errorf("outside client to %s: got %s, want a drop", addr, got)
				}
			}
		})
	}
}

func localOnly(opts ...option) *proxier.ServicePort {
	return service("local-only", proxier.TCP, "10.96.0.70:80", append(opts, externalPolicyLocal,
		at(proxier.NodePort, "", 30070), at(proxier.ExternalIP, "192.0.2.71", 80),
		at(proxier.LoadBalancer, "192.0.2.70", 80))...)
}

func TestKernelExternalPolicyLocalKeepsTheSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b, localOnly(on("10.244.1.11:8080"), far("10.244.2.15:8080")))
	for _, addr := range []string{"192.0.2.70:80", "192.0.2.71:80", "10.0.0.2:30070"} {
		for range 20 {
			want := answer{"10.244.1.11:8080", clientAddr}
			if got := ask(t, w.client, "tcp", addr); got != want {
				t.Fatalf("outside client to %s: got %v, want %v", addr, got, want)
			}
		}
		wantEven(t, "pod", spread(t, w.pod2, "tcp", addr, 60), []string{"10.244.1.11:8080", "10.244.2.15:8080"})
	}
	update(t, b, localOnly(far("10.244.2.15:8080")))
	if got := ask(t, w.client, "tcp", "192.0.2.70:80").from; got != "timeout" {
		t.Errorf("after the local endpoint went: got %s, want a drop", got)
	}
	update(t, b, localOnly(on("10.244.1.12:8080")))
	if got := ask(t, w.client, "tcp", "192.0.2.70:80").from; got != "10.244.1.12:8080" {
		t.Errorf("after a local endpoint came: got %s", got)
	}
}

func TestKernelSourceRangesLimitLoadBalancerAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	limited := func(ranges ...string) *proxier.ServicePort {
		return service("web", proxier.TCP, "10.96.0.50:80", on("10.244.1.11:8080"), sources(ranges...),
			at(proxier.LoadBalancer, "192.0.2.70", 80), at(proxier.NodePort, "", 30080))
	}
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b)
	for _, step := range []struct {
		name   string
		ranges []string
		client string
		pod    string
	}{
		{"the client's network", []string{"198.51.100.0/24"}, "10.244.1.11:8080", "timeout"},
		{"a wider one", []string{"198.51.0.0/16", "198.51.100.0/24", "203.0.113.0/24"}, "10.244.1.11:8080", "timeout"},
		{"the client alone", []string{"198.51.100.7/32"}, "10.244.1.11:8080", "timeout"},
		{"others", []string{"203.0.113.0/24", "10.244.0.0/16"}, "timeout", "10.244.1.11:8080"},
		{"everybody", nil, "10.244.1.11:8080", "10.244.1.11:8080"},
	} {
		update(t, b, limited(step.ranges...))
		t.Run(step.name, func(t *testing.T) {
			if got := ask(t, w.client, "tcp", "192.0.2.70:80").from; got != step.client {
				t.Errorf("client to the load balancer address: got %s, want %s", got, step.client)
			}
			if got := ask(t, w.pod2, "tcp", "192.0.2.70:80").from; got != step.pod {
				t.Errorf("pod to the load balancer address: got %s, want %s", got, step.pod)
			}
			for _, open := range []string{"10.96.0.50:80", "10.0.0.2:30080"} {
				if got := ask(t, w.client, "tcp", open).from; got != "10.244.1.11:8080" {
					t.Errorf("client to %s: got %s, want an answer: it has no source ranges", open, got)
				}
			}
		})
	}
	if got := elementsOf(t, b, firewallSources); len(got) != 0 {
		t.Errorf("source ranges left: %q", got)
	}
}
