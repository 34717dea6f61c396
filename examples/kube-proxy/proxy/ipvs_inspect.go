package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
)

func ipvsView(cfg Config) (view, error) {
	b, err := newIPVS(cfg)
	if err != nil {
		return view{}, err
	}
	addrs, err := addrsBeside(ipvs.DefaultDevice)
	return view{
		plan: func(ctx context.Context, s *proxier.State) ([]string, error) { return b.Plan(ctx, s) },
		rules: func(n proxier.Network, p *proxier.ServicePort) (string, []string) {
			return "in IPVS, and in the tables " + ipvs.DefaultTable, b.Lines(&proxier.State{Network: n}, p, addrs...)
		},
		close: func() error { return b.Close() },
	}, err
}

// addrsOf returns the addresses of the node: in mode ipvs without those of the device for addresses of
// Services.
func addrsOf(m config.Mode) ([]netip.Addr, error) {
	if m == config.IPVS {
		return addrsBeside(ipvs.DefaultDevice)
	}
	return localAddrs()
}

// addrsBeside returns the addresses of the node's interfaces but one.
func addrsBeside(device string) ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of the node: %w", err)
	}
	var out []netip.Addr
	for _, i := range interfaces {
		if i.Name == device {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of %s: %w", i.Name, err)
		}
		out = append(out, parsed(addrs)...)
	}
	return out, nil
}

// guarded returns e as it is in mode ipvs: an address of a Service that no other device of the
// node has is on the one of IPVS, and refuses what is no port of a Service. elsewhere are the
// addresses of other devices.
func guarded(e proxier.Explanation, s *proxier.State, q proxier.Query, elsewhere []netip.Addr) proxier.Explanation {
	a := q.Addr.Addr().Unmap()
	if e.Port != nil || slices.Contains(elsewhere, a) {
		return e
	}
	i := slices.IndexFunc(s.Ports, func(p *proxier.ServicePort) bool {
		return slices.ContainsFunc(p.Frontends, func(f proxier.Frontend) bool { return f.Addr == a })
	})
	if i < 0 {
		return e
	}
	owner := s.Ports[i].Key
	for _, p := range s.Ports {
		if p.HealthCheckNodePort != 0 && p.HealthCheckNodePort == q.Addr.Port() && q.Protocol == proxier.TCP && p.Key.Family == proxier.FamilyOf(a) {
			return explained("routed", fmt.Sprintf("%d is the healthCheckNodePort of %s/%s: the node answers", q.Addr.Port(), p.Key.Namespace, p.Key.Name))
		}
	}
	return explained("refused", fmt.Sprintf(
		"%s is an address of %s/%s, and of this node: no Service has %s port %d there", a, owner.Namespace, owner.Name, q.Protocol, q.Addr.Port()))
}

func explained(verdict, why string) proxier.Explanation {
	return proxier.Explanation{Ways: []proxier.Way{{From: "anywhere", Verdict: verdict, Why: why}}}
}
