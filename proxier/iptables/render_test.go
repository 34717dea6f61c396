package iptables

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// everything is a ServicePort with all kinds of frontends.
func everything(name string, change func(*proxier.ServicePort)) *proxier.ServicePort {
	p := servicePort(name, "10.96.0.10", "10.244.1.9:8080", "10.244.1.10:8080", "10.244.2.5:8080")
	p.Frontends = append(p.Frontends, nodePort(30080), vip(proxier.ExternalIP, "192.0.2.10"), vip(proxier.LoadBalancer, "203.0.113.10"))
	change(p)
	return p
}

func none(*proxier.ServicePort) {}

// TestServicesAreRenderedLikeKubeProxys compares with files of rules in the spelling of
// iptables-save.
func TestServicesAreRenderedLikeKubeProxys(t *testing.T) {
	pods := podMatch{source: netip.MustParsePrefix("10.244.0.0/16")}
	local := func(p *proxier.ServicePort) {
		p.ExternalLocal = true
		p.Local = endpointsAt("10.244.1.9:8080")
		p.HealthCheckNodePort = 31080
	}
	v6 := servicePort("web", "fd00:96::10", "[fd00:244::5]:8080", "[fd00:244::6]:8080")
	v6.Affinity = 3 * time.Hour
	tests := []struct {
		name     string
		renderer renderer
		port     *proxier.ServicePort
		terse    bool
	}{
		{name: "all-frontends", renderer: renderer{pods: pods}, port: everything("web", none)},
		{name: "external-local", renderer: renderer{pods: pods}, port: everything("web", local)},
		{name: "health-check-alone", renderer: renderer{pods: pods}, port: everything("web", func(p *proxier.ServicePort) {
			p.Local = endpointsAt("10.244.1.9:8080", "10.244.1.11:8080") // for the health check alone
		})},
		{name: "internal-local", renderer: renderer{pods: pods}, port: with(everything("web", local), func(p *proxier.ServicePort) { p.InternalLocal = true })},
		{name: "no-local-endpoints", renderer: renderer{pods: pods}, port: with(everything("web", local), func(p *proxier.ServicePort) {
			p.InternalLocal, p.Local = true, nil
		})},
		{name: "no-endpoints", renderer: renderer{pods: pods}, port: with(everything("web", none), func(p *proxier.ServicePort) {
			p.HasEndpoints, p.Cluster = false, nil
		})},
		{
			name:     "source-ranges",
			renderer: renderer{pods: pods, nodeAddr: netip.MustParseAddr("198.51.100.3")},
			port: with(everything("web", none), func(p *proxier.ServicePort) {
				p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/25")}
			}),
		},
		{name: "affinity", renderer: renderer{pods: pods}, port: with(servicePort("web", "10.96.0.10", "10.244.1.9:8080", "10.244.1.10:8080"), func(p *proxier.ServicePort) {
			p.Affinity = 90 * time.Second
		})},
		{name: "affinity-ipv6", renderer: renderer{family: proxier.IPv6, pods: podMatch{iface: "cni0"}}, port: v6},
		{name: "masquerade-all", renderer: renderer{masqueradeAll: true, pods: pods}, port: servicePort("web", "10.96.0.10", "10.244.1.9:8080")},
		{name: "no-detection", port: everything("web", local)},
		{name: "counted-node-ports", renderer: renderer{countLocal: true, family: proxier.IPv4}, port: everything("web", none)},
		{name: "many-endpoints", renderer: renderer{pods: pods}, port: everything("web", none), terse: true},
		{name: "udp-without-port-name", renderer: renderer{pods: podMatch{iface: "veth+"}}, port: with(servicePort("dns", "10.96.0.53", "10.244.1.9:53"), func(p *proxier.ServicePort) {
			p.Key.Port, p.Key.Protocol = "", proxier.UDP
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b block
			tt.renderer.render(&b, tt.port, tt.terse)
			compareFile(t, tt.name, listing(&b))
		})
	}
}

// listing is what a block has, with the table before each rule.
func listing(b *block) string {
	var out strings.Builder
	for _, s := range b.shared {
		out.WriteString(string(s.chain.table()) + " " + string(b.rule(s)))
	}
	for _, c := range b.chains {
		out.WriteString("nat :" + c.name.String() + "\n")
		for line := range strings.Lines(string(b.rules(c))) {
			out.WriteString("nat " + line)
		}
	}
	return out.String()
}

// compareFile compares with a file of testdata; UPDATE=1 writes it.
func compareFile(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "rules", name+".txt")
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got; UPDATE=1 writes it):\n%s", path, diff)
	}
}

func TestRenderingMakesNoGarbage(t *testing.T) {
	p := everything("web", func(p *proxier.ServicePort) {
		p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		p.Affinity = time.Minute
	})
	r := renderer{pods: podMatch{source: netip.MustParsePrefix("10.244.0.0/16")}}
	var b block
	r.render(&b, p, false) // it makes room
	if n := testing.AllocsPerRun(100, func() { r.render(&b, p, false) }); n > 4 {
		t.Errorf("a Service with 3 endpoints costs %v allocations, want 4 at most, whatever the number of rules", n)
	}
}
