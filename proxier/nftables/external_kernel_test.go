//go:build linux

package nftables

import (
	"net/netip"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

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
	if got := ask(t, w.node, "tcp", "127.0.0.1:30080"); got.from != "refused" {
		t.Errorf("node port at loopback: got %v, want what there is without it: refused", got)
	}
}

// Where nothing tells pods from others, pods are treated as others: with
// externalTrafficPolicy Local and no endpoint here they are dropped, and the node itself
// is not.
func TestKernelExternalPolicyLocalWhereNothingIsDetected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{})
	reset(t, b, localOnly(far("10.244.2.15:8080")))
	for _, addr := range []string{"192.0.2.70:80", "10.0.0.2:30070"} {
		if got := ask(t, w.pod2, "tcp", addr).from; got != "timeout" {
			t.Errorf("pod to %s: got %s, want a drop", addr, got)
		}
		want := answer{"10.244.2.15:8080", netip.MustParseAddr("10.244.2.1")}
		if got := ask(t, w.node, "tcp", addr); got != want {
			t.Errorf("node to %s: got %v, want %v", addr, got, want)
		}
	}
}

func localOnly(opts ...option) *proxier.ServicePort {
	return service("local-only", proxier.TCP, "10.96.0.70:80", append(opts, externalPolicyLocal,
		at(proxier.NodePort, "", 30070), at(proxier.ExternalIP, "192.0.2.71", 80),
		at(proxier.LoadBalancer, "192.0.2.70", 80))...)
}
