//go:build linux

package iptables

import (
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// Node ports answer at 127.0.0.1, and what else listens there is not to be had from the
// network, although route_localnet is set.
func TestKernelNodePortsAtLocalhost(t *testing.T) {
	onKernel(t, func(t *testing.T, v Variant) {
		t.Helper()
		m := newMachine(t, v)
		b := m.backend(t, Config{LocalhostNodePorts: true})
		web := with(m.web, func(p *proxier.ServicePort) { p.Frontends = append(p.Frontends, nodePort(30080)) })
		mustReset(t, b, web)
		m.awaitDial(t, "127.0.0.1:30080")
		if c, err := b.Counters(); err != nil || c.LocalNodePorts == 0 {
			t.Errorf("counters %+v, %v; want connections at localhost counted", c, err)
		}
		private, err := m.node.Listen("tcp", "127.0.0.1:9999")
		if err != nil {
			t.Fatal(err)
		}
		defer private.Close()
		// The neighbour takes 127.0.0.1 for an address of the node.
		m.pod.Sysctl(t, "ipv4/conf/all/route_localnet", "1")
		m.pod.IP(t, "addr", "del", "127.0.0.1/8", "dev", "lo")
		m.pod.IP(t, "route", "add", "127.0.0.1/32", "via", "10.244.0.1")
		if c, err := m.pod.Dial("tcp", "127.0.0.1:9999", 2*time.Second); err == nil {
			_ = c.Close()
			t.Error("a neighbour connects to what listens at 127.0.0.1")
		}
		// Without the guard it would: the test can fail.
		m.run(t, "iptables -t filter -F KUBE-FIREWALL")
		c, err := m.pod.Dial("tcp", "127.0.0.1:9999", 30*time.Second)
		if err != nil {
			t.Fatalf("without the guard: %v", err)
		}
		_ = c.Close()
	})
}
