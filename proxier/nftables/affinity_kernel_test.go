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

func TestKernelSessionAffinity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	const vip, nodePort, external = "10.96.0.60:80", "10.0.0.2:30060", "192.0.2.60:80"
	web := func(timeout time.Duration, opts ...option) *proxier.ServicePort {
		return service("sticky", proxier.TCP, vip, append(opts, sticky(timeout),
			at(proxier.NodePort, "", 30060), at(proxier.ExternalIP, "192.0.2.60", 80))...)
	}
	three := []option{on("10.244.1.11:8080", "10.244.1.12:8080"), far("10.244.2.15:8080")}
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b, web(time.Hour, three...), service("sticky6", proxier.TCP, "[fd00:96::60]:80", append(both6, sticky(time.Hour))...))

	first := stays(t, w.client, vip, 20)
	for _, other := range []string{nodePort, external} {
		if got := stays(t, w.client, other, 10); got != first {
			t.Errorf("client pinned to %s by the cluster IP finds %s at %s", first, got, other)
		}
	}
	stays(t, w.client, "[fd00:96::60]:80", 20)

	t.Run("survives a reset", func(t *testing.T) {
		reset(t, b, web(time.Hour, three...))
		if got := stays(t, w.client, vip, 10); got != first {
			t.Errorf("after a reset: %s, before: %s", got, first)
		}
	})
	t.Run("moves only when its endpoint goes", func(t *testing.T) {
		left, gone := without(first)
		update(t, b, web(time.Hour, left...))
		second := stays(t, w.client, vip, 20)
		if second == first {
			t.Fatalf("client still finds %s", first)
		}
		update(t, b, web(time.Hour, append(left, gone)...))
		if got := stays(t, w.client, vip, 20); got != second {
			t.Errorf("client moved from %s to %s when %s came back", second, got, first)
		}
	})
	t.Run("ends with its timeout", func(t *testing.T) {
		update(t, b, web(50*time.Millisecond, three...))
		found := map[string]bool{}
		tick := time.NewTicker(120 * time.Millisecond)
		defer tick.Stop()
		// An unpinned client finds the same of three endpoints thirty times in a row
		// once in 10¹³ runs.
		for range 30 {
			found[ask(t, w.client, "tcp", vip).from] = true
			if len(found) > 1 {
				return
			}
			<-tick.C
		}
		t.Errorf("a client that comes back after the timeout always finds %v", found)
	})
	t.Run("ends with the setting", func(t *testing.T) {
		update(t, b, web(0, three...))
		wantEven(t, "client", spread(t, w.client, "tcp", vip, 90),
			[]string{"10.244.1.11:8080", "10.244.1.12:8080", "10.244.2.15:8080"})
	})
}

// without returns the options that give the three endpoints but one, and the
// one that gives it.
func without(ep string) (left []option, gone option) {
	for addr, o := range map[string]option{
		"10.244.1.11:8080": on("10.244.1.11:8080"),
		"10.244.1.12:8080": on("10.244.1.12:8080"),
		"10.244.2.15:8080": far("10.244.2.15:8080"),
	} {
		if addr == ep {
			gone = o
		} else {
			left = append(left, o)
		}
	}
	return left, gone
}

func TestKernelAffinityIsPerServiceAndPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{Local: podNet()})
	only := service("only", proxier.TCP, "10.96.0.62:80", far("10.244.2.15:8080"), sticky(time.Hour))
	split := service("split", proxier.TCP, "10.96.0.61:80", on("10.244.1.11:8080"), far("10.244.2.15:8080"),
		sticky(time.Hour), externalPolicyLocal, at(proxier.ExternalIP, "192.0.2.61", 80))
	reset(t, b, only, split)
	if got := stays(t, w.client, "10.96.0.62:80", 3); got != "10.244.2.15:8080" {
		t.Errorf("the Service with one endpoint answers from %s", got)
	}
	stays(t, w.client, "10.96.0.61:80", 10)
	if got := stays(t, w.client, "192.0.2.61:80", 10); got != "10.244.1.11:8080" {
		t.Errorf("external policy Local answers from %s, which is not local", got)
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
