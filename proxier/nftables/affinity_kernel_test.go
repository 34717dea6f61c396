//go:build linux

package nftables

import (
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// stays asks n times and returns the one endpoint that answered.
func stays(t *testing.T, ns *netnstest.NS, addr string, n int) string {
	t.Helper()
	got := spread(t, ns, "tcp", addr, n)
	for ep := range got {
		if len(got) == 1 {
			return ep
		}
	}
	t.Fatalf("answers of %s = %v, want one endpoint", addr, got)
	return ""
}

// Another generation of rules knows the clients of the one before, which the next process
// does not.
func TestKernelSessionAffinitySurvivesAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	const vip, vip6 = "10.96.0.60:80", "[fd00:96::60]:80"
	both := []*proxier.ServicePort{
		service("sticky", proxier.TCP, vip, append(both4, sticky(time.Hour))...),
		service("sticky6", proxier.TCP, vip6, append(both6, sticky(time.Hour))...),
	}
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b, both...)
	first, first6 := stays(t, w.client, vip, 20), stays(t, w.client, vip6, 20)
	reset(t, b, both...)
	if got, got6 := stays(t, w.client, vip, 10), stays(t, w.client, vip6, 10); got != first || got6 != first6 {
		t.Errorf("after a reset: %s and %s, before: %s and %s", got, got6, first, first6)
	}
}

// Pinning must not be what a connection depends on.
func TestKernelFullAffinityMapDoesNotStopConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{Local: podNet()})
	b.affinitySize = 1
	reset(t, b, service("sticky", proxier.TCP, "10.96.0.60:80", append(both4, sticky(time.Hour))...))
	stays(t, w.client, "10.96.0.60:80", 10)
	wantEven(t, "pod", spread(t, w.pod2, "tcp", "10.96.0.60:80", 60),
		[]string{"10.244.1.11:8080", "10.244.1.12:8080", "10.244.2.15:8080"})
}
