package proxiertest

import (
	"math/rand/v2"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// randomServices changes some of the Services, and returns all of them. Two of them
// change hands of an endpoint, an address or everything, come and go.
func randomServices(r *rand.Rand, old []service) []service {
	services := slices.Clone(old)
	for number := 1; number <= 5; number++ {
		i := slices.IndexFunc(services, func(s service) bool { return s.number == number })
		switch {
		case r.IntN(3) == 0: // stays as it is
		case i < 0:
			services = append(services, randomService(r, number))
		case r.IntN(4) == 0:
			services = slices.Delete(services, i, i+1)
		default:
			services[i] = randomService(r, number)
		}
	}
	return services
}

func randomService(r *rand.Rand, number int) service {
	maybe := func() bool { return r.IntN(2) == 0 }
	s := service{
		number: number, nodePort: maybe(), externalIP: maybe(), vip: maybe(),
		externalLocal: maybe(), internalLocal: r.IntN(4) == 0,
	}
	if s.vip && r.IntN(3) == 0 {
		s.sources = []Host{[]Host{Outside, ClientNode}[r.IntN(2)]}
	}
	for h := Pod1; h <= Far2; h++ {
		if maybe() {
			s.endpoints = append(s.endpoints, endpoint{host: h, state: []endpointState{ready, ready, draining, notReady}[r.IntN(4)]})
		}
	}
	return s
}

// usable reports whether some endpoint is.
func (s service) usable() bool {
	return slices.ContainsFunc(s.endpoints, func(e endpoint) bool { return e.state != notReady })
}

// predictedFlows are flows to every frontend with what becomes of them, by Expect.
func predictedFlows(services []service) []flow {
	o := objectsOf(services)
	state := Expect(proxier.Node{Name: NodeName}, o.Services, o.Slices)
	var flows []flow
	for _, s := range services {
		for _, kind := range []proxier.FrontendKind{clusterIP, nodePort, externalIP, loadBalancer} {
			for _, h := range []Host{Outside, ClientNode, OurNode, Pod1, Pod2} {
				// kube-proxy's iptables mode treats these differently.
				if h == OurNode && (kind == externalIP || kind == loadBalancer) {
					continue
				}
				// So it does with clients that may not ask for what nobody answers.
				if kind == loadBalancer && len(s.sources) > 0 && !s.usable() {
					continue
				}
				want, known := predict(state, h, kind, proxier.TCP, s.frontend(kind, proxier.IPv4))
				if known {
					flows = append(flows, flow{from: h, kind: kind, to: s.number, want: want})
				}
			}
		}
	}
	return flows
}
