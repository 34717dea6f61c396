package ipvs

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/nftables/expr"

	"github.com/nodekit-go/nodekit/proxier"
)

// A health port is one of a Service: it stays until the last of its ServicePorts is gone.
func TestHealthPortIsOpenWhileAServiceHasIt(t *testing.T) {
	k := noded(t)
	b := k.backend(Config{})
	lb := func(port string, number uint16) *proxier.ServicePort {
		p := portOf4("lb", proxier.TCP, at(proxier.LoadBalancer, "192.0.2.2", number), to("10.244.1.21:80"), func(p *proxier.ServicePort) {
			p.ExternalLocal, p.HealthCheckNodePort = true, 31000
		})
		p.Key.Port = port
		return p
	}
	open := func() []string {
		out := []string{}
		for e := range k.rules.elements {
			if e.in == healthPorts {
				out = append(out, e.String())
			}
		}
		return out
	}
	one, two := lb("a", 80), lb("b", 443)
	reset(t, b, one, two)
	want(t, "health ports of two", open(), []string{"health-ports { tcp . 31000 }"})
	if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{one.Key}}); err != nil {
		t.Fatal(err)
	}
	want(t, "health ports of one", open(), []string{"health-ports { tcp . 31000 }"})
	moved := lb("b", 443)
	moved.HealthCheckNodePort = 31001
	apply(t, b, moved)
	want(t, "another health port", open(), []string{"health-ports { tcp . 31001 }"})
	if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{two.Key}}); err != nil {
		t.Fatal(err)
	}
	want(t, "health ports of none", open(), []string{})
}

// What the rules let through they have to before they refuse everything else.
func TestHealthPortIsLookedUpBeforeOthersAreRefused(t *testing.T) {
	for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		p := program{family: f, serviceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
		rules := p.input()
		let := slices.IndexFunc(rules, func(r rule) bool { return looksUp(r, healthPorts) })
		refuse := slices.IndexFunc(rules, func(r rule) bool { return looksUp(r, serviceIPs) })
		if let < 0 || refuse < let {
			t.Errorf("%s: rule %d looks up health ports and rule %d refuses the rest", f, let, refuse)
		}
	}
}

func looksUp(r rule, o object) bool {
	return slices.ContainsFunc(r, func(e expr.Any) bool {
		l, ok := e.(*expr.Lookup)
		return ok && l.SetName == o.String()
	})
}
