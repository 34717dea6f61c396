package proxiertest

import "github.com/nodekit-go/nodekit/proxier"

// step is a state of the cluster and what becomes of connections in it.
type step struct {
	services []service
	flows    []flow
}

// story is a row of the table: one state after the other, each from the one before it.
type story struct {
	name  string
	steps []step
}

// Short names for the table.
const (
	clusterIP    = proxier.ClusterIP
	nodePort     = proxier.NodePort
	externalIP   = proxier.ExternalIP
	loadBalancer = proxier.LoadBalancer
)

// from makes a flow from each host.
func from(hosts ...Host) origins { return hosts }

type origins []Host

func (o origins) to(number int, want expectation, kinds ...proxier.FrontendKind) []flow {
	var flows []flow
	for _, h := range o {
		for _, kind := range kinds {
			flows = append(flows, flow{from: h, kind: kind, to: number, want: want})
		}
	}
	return flows
}

func all(groups ...[]flow) []flow {
	var flows []flow
	for _, g := range groups {
		flows = append(flows, g...)
	}
	return flows
}

// stories is the table. pinned are the frontends at which a client that was pinned at a
// node port is sent to the same endpoint.
func stories(pinned []proxier.FrontendKind) []story {
	var table []story
	for _, part := range [][]story{
		basics(), pins(pinned), emptiness(), externals(), policies(), drains(), firewalls(), hairpins(), sharing(), disputes(),
	} {
		table = append(table, part...)
	}
	return table
}

func basics() []story {
	everybody := from(Outside, ClientNode, OurNode, Pod2)
	return []story{
		{"cluster IP", []step{{
			[]service{{number: 1, endpoints: on(Pod1, Far1, Far2)}},
			all(
				from(Outside, ClientNode, OurNode).to(1, masqueraded(Pod1, Far1, Far2), clusterIP),
				from(Pod2).to(1, by(Pod1, Far1, Far2), clusterIP),
			),
		}}},
		{"endpoints come, move and go", []step{
			{[]service{{number: 1, endpoints: on(Far1)}}, everybody[2:].to(1, by(Far1), clusterIP)},
			{[]service{{number: 1, endpoints: on(Far1, Pod1)}}, everybody[2:].to(1, by(Far1, Pod1), clusterIP)},
			{[]service{{number: 1, endpoints: on(Far2)}}, everybody[2:].to(1, by(Far2), clusterIP)},
			{[]service{{number: 1}}, everybody[2:].to(1, expect(refused), clusterIP)},
			{[]service{{number: 1, endpoints: on(Pod1)}}, everybody[2:].to(1, by(Pod1), clusterIP)},
		}},
		{"hints for this node", []step{{
			[]service{{number: 1, endpoints: []endpoint{{host: Far1, hint: "far-1"}, {host: Far2, hint: NodeName}}}},
			from(OurNode, Pod2).to(1, by(Far2), clusterIP),
		}}},
		{"affinity", []step{
			{[]service{{number: 1, endpoints: on(Far1), affinity: true, nodePort: true}}, from(Pod2, OurNode).to(1, by(Far1), clusterIP)},
			// The client's endpoint is still there.
			{[]service{{number: 1, endpoints: on(Far1, Far2, Pod1), affinity: true, nodePort: true}}, from(Pod2, OurNode).to(1, by(Far1), clusterIP)},
			{[]service{{number: 1, endpoints: on(Far2), affinity: true, nodePort: true}}, from(Pod2, OurNode).to(1, by(Far2), clusterIP)},
			{[]service{{number: 1, endpoints: on(Far1, Far2, Pod1), affinity: true, nodePort: true}}, from(Pod2).to(1, by(Far2), clusterIP)},
			{[]service{{number: 1, endpoints: on(Far1, Far2, Pod1)}}, from(Pod2).to(1, by(Far1, Far2, Pod1), clusterIP)},
		}},
	}
}

// pins are clients that stay with their endpoint, whichever of the pinned frontends they ask.
func pins(pinned []proxier.FrontendKind) []story {
	sticky := service{number: 1, endpoints: on(Far1), affinity: true, nodePort: true, externalIP: true}
	wider, other := sticky, sticky
	wider.endpoints, other.endpoints = on(Far1, Far2, Pod1), on(Far2, Pod1)
	free := wider
	free.affinity = false
	frontends := []proxier.FrontendKind{clusterIP, nodePort, externalIP}
	return []story{
		{"affinity at all frontends of a Service", []step{
			{[]service{sticky}, from(Outside, ClientNode).to(1, masqueraded(Far1), nodePort)},
			{[]service{wider}, from(Outside, ClientNode).to(1, masqueraded(Far1), pinned...)},
			// Its endpoint goes: it has another one, and comes back to none.
			{[]service{other}, from(Outside, ClientNode).to(1, either(Far2, Pod1), frontends...)},
			{[]service{wider}, from(Outside, ClientNode).to(1, either(Far2, Pod1), frontends...)},
			{[]service{free}, from(Outside, ClientNode).to(1, masqueraded(Far1, Far2, Pod1), frontends...)},
		}},
		{"affinity under external policy Local", []step{
			{
				[]service{{number: 1, endpoints: on(Pod1), affinity: true, nodePort: true, externalLocal: true}},
				all(from(Outside).to(1, by(Pod1), nodePort), from(Pod2).to(1, by(Pod1), nodePort, clusterIP)),
			},
			{
				[]service{{number: 1, endpoints: on(Pod1, Pod2, Far1), affinity: true, nodePort: true, externalLocal: true}},
				from(Outside).to(1, by(Pod1), nodePort),
			},
			{
				[]service{{number: 1, endpoints: on(Pod2, Far1), affinity: true, nodePort: true, externalLocal: true}},
				from(Outside).to(1, by(Pod2), nodePort),
			},
		}},
	}
}

func emptiness() []story {
	everybody := from(Outside, ClientNode, OurNode, Pod2)
	return []story{
		{"no endpoints", []step{{
			[]service{{number: 1, nodePort: true, externalIP: true}, {number: 2, endpoints: []endpoint{{host: Pod1, state: notReady}}}},
			all(
				everybody.to(1, expect(refused), clusterIP, nodePort),
				everybody.to(2, expect(refused), clusterIP),
				// kube-proxy's iptables mode refuses nothing to the node itself here.
				from(Outside, ClientNode, Pod2).to(1, expect(refused), externalIP),
			),
		}}},
		{"no load balancer endpoints", []step{{
			[]service{{number: 1, vip: true}},
			from(Outside, ClientNode, Pod2).to(1, expect(refused), loadBalancer, nodePort),
		}}},
		{"no local endpoint under internal policy Local", []step{
			{[]service{{number: 1, internalLocal: true, endpoints: on(Far1)}}, everybody.to(1, expect(dropped), clusterIP)},
			{[]service{{number: 1, internalLocal: true, endpoints: on(Far1, Pod1)}}, everybody[2:].to(1, by(Pod1), clusterIP)},
		}},
	}
}

func externals() []story {
	clients := from(Outside, ClientNode, OurNode)
	return []story{
		{"external frontends", []step{
			{
				[]service{{number: 1, endpoints: on(Pod1, Far1), vip: true, externalIP: true}},
				all(
					clients.to(1, masqueraded(Pod1, Far1), nodePort, externalIP, loadBalancer),
					from(Pod2).to(1, masqueraded(Pod1, Far1), nodePort, externalIP, loadBalancer),
				),
			},
			{[]service{{number: 1, endpoints: on(Far1)}}, from(Outside, Pod2).to(1, expect(refused), nodePort)},
		}},
	}
}

func policies() []story {
	external := []proxier.FrontendKind{nodePort, externalIP, loadBalancer}
	return []story{
		{"external policy Local with local endpoints", []step{{
			[]service{{number: 1, endpoints: on(Pod1, Far1), vip: true, externalIP: true, externalLocal: true}},
			all(
				from(Outside, ClientNode).to(1, by(Pod1), external...),
				from(Pod2, OurNode).to(1, by(Pod1, Far1), external...),
				from(Pod2).to(1, by(Pod1, Far1), clusterIP),
			),
		}}},
		{"external policy Local without local endpoints", []step{
			{
				[]service{{number: 1, endpoints: on(Far1), vip: true, externalIP: true, externalLocal: true}},
				all(
					from(Outside, ClientNode).to(1, expect(dropped), external...),
					from(Pod2, OurNode).to(1, by(Far1), external...),
				),
			},
			{
				[]service{{number: 1, endpoints: on(Pod2), vip: true, externalIP: true, externalLocal: true}},
				from(Outside, ClientNode).to(1, by(Pod2), external...),
			},
			{
				[]service{{number: 1, vip: true, externalIP: true, externalLocal: true}},
				from(Outside, ClientNode).to(1, expect(refused), external...),
			},
		}},
		{"both policies Local", []step{{
			[]service{{number: 1, endpoints: on(Pod1, Far1), nodePort: true, externalLocal: true, internalLocal: true}},
			all(
				from(Outside, ClientNode).to(1, by(Pod1), nodePort),
				from(Outside).to(1, masqueraded(Pod1), clusterIP),
				from(Pod2).to(1, by(Pod1), clusterIP),
			),
		}}},
	}
}

func drains() []story {
	return []story{
		{"terminating endpoints serve when nobody else does", []step{
			{[]service{{number: 1, endpoints: []endpoint{{host: Far1, state: draining}, {host: Far2, state: notReady}}}}, from(Pod2, OurNode).to(1, by(Far1), clusterIP)},
			{[]service{{number: 1, endpoints: []endpoint{{host: Far1, state: draining}, {host: Far2}}}}, from(Pod2, OurNode).to(1, by(Far2), clusterIP)},
		}},
		{"the last local endpoint drains", []step{{
			[]service{{number: 1, vip: true, externalLocal: true, endpoints: []endpoint{{host: Pod1, state: draining}, {host: Far1}}}},
			all(
				from(Outside).to(1, by(Pod1), nodePort, loadBalancer),
				from(Pod2).to(1, by(Far1), clusterIP),
			),
		}}},
	}
}

func firewalls() []story {
	return []story{
		{"source ranges", []step{
			{
				[]service{{number: 1, vip: true, endpoints: on(Far1), sources: []Host{Outside}}},
				all(
					from(Outside).to(1, masqueraded(Far1), loadBalancer),
					from(ClientNode, Pod2).to(1, expect(dropped), loadBalancer),
					from(ClientNode).to(1, masqueraded(Far1), nodePort, clusterIP),
				),
			},
			{
				[]service{{number: 1, vip: true, endpoints: on(Far1), sources: []Host{ClientNode, Pod2}}},
				all(
					from(Outside).to(1, expect(dropped), loadBalancer),
					from(ClientNode, Pod2).to(1, masqueraded(Far1), loadBalancer),
				),
			},
			{
				[]service{{number: 1, vip: true, endpoints: on(Far1)}},
				from(Outside, ClientNode, Pod2).to(1, masqueraded(Far1), loadBalancer),
			},
		}},
		{"source ranges that overlap", []step{
			{
				[]service{{number: 1, vip: true, endpoints: on(Far1), sources: []Host{Outside}, ranges: []string{
					"198.51.100.0/24", "198.51.0.0/16", "2001:db8:f::/64", "2001:db8:f::/48",
				}}},
				all(
					from(Outside).to(1, masqueraded(Far1), loadBalancer),
					from(ClientNode, Pod2).to(1, expect(dropped), loadBalancer),
				),
			},
			{
				[]service{{number: 1, vip: true, endpoints: on(Far1), ranges: []string{"198.51.0.0/16", "10.0.0.0/8", "2001:db8::/32"}}},
				all(
					from(Outside, ClientNode).to(1, masqueraded(Far1), loadBalancer),
					from(Pod2).to(1, masqueraded(Far1), nodePort),
				),
			},
		}},
	}
}

func hairpins() []story {
	return []story{
		{"a pod reaches itself", []step{
			{
				[]service{{number: 1, endpoints: on(Pod1), vip: true, externalIP: true}},
				from(Pod1).to(1, masqueraded(Pod1), clusterIP, nodePort, externalIP, loadBalancer),
			},
			{
				[]service{{number: 1, endpoints: on(Pod1), vip: true, externalIP: true, externalLocal: true, internalLocal: true}},
				from(Pod1).to(1, masqueraded(Pod1), clusterIP, nodePort, externalIP, loadBalancer),
			},
		}},
	}
}

func sharing() []story {
	one := service{number: 1, endpoints: on(Pod1), nodePort: true}
	two := service{number: 2, endpoints: on(Pod1), nodePort: true}
	ofOne := from(Outside, OurNode, Pod2, Pod1).to(1, by(Pod1), clusterIP)
	ofTwo := from(Outside, OurNode, Pod2, Pod1).to(2, by(Pod1), clusterIP)
	for i := range ofOne {
		ofOne[i].want.masqueraded = ofOne[i].from == Outside
		ofTwo[i].want.masqueraded = ofTwo[i].from == Outside
	}
	return []story{
		{"an endpoint of two Services, the first goes", []step{
			{[]service{one, two}, all(ofOne, ofTwo)}, {[]service{two}, ofTwo},
		}},
		{"an endpoint of two Services, the second goes", []step{
			{[]service{one, two}, all(ofOne, ofTwo)}, {[]service{one}, ofOne},
		}},
		{"a node port moves to another Service", []step{
			{[]service{one, {number: 5, endpoints: on(Far1)}}, from(Outside).to(1, masqueraded(Pod1), nodePort)},
			{
				[]service{{number: 1, endpoints: on(Far1)}, {number: 5, endpoints: on(Far1), nodePort: true}},
				from(Outside).to(5, masqueraded(Far1), nodePort),
			},
		}},
	}
}

// disputes are addresses that two Services ask for. Kube-proxy lets any of them have
// it; here it is the older one. When one goes, the other has it.
func disputes() []story {
	var table []story
	for _, d := range []struct {
		what           string
		kind           proxier.FrontendKind
		older, younger service
	}{
		{
			"a VIP", loadBalancer,
			service{number: 3, endpoints: on(Far1), vip: true, age: 2},
			service{number: 4, endpoints: on(Far2), vip: true, vipOf: 3, age: 1},
		},
		{
			"a node port", nodePort,
			service{number: 3, endpoints: on(Far1), nodePort: true, age: 2},
			service{number: 4, endpoints: on(Far2), nodePort: true, nodePortOf: 3, age: 1},
		},
	} {
		both := []service{d.older, d.younger}
		disputed := from(Outside).to(3, either(Far1, Far2), d.kind)
		table = append(table,
			story{d.what + " of two Services, the owner goes", []step{
				{both, all(disputed, from(Outside).to(4, masqueraded(Far2), clusterIP))},
				{[]service{d.younger}, from(Outside).to(4, masqueraded(Far2), d.kind)},
			}},
			story{d.what + " of two Services, the other goes", []step{
				{both, all(disputed, from(Outside).to(3, masqueraded(Far1), clusterIP))},
				{[]service{d.older}, from(Outside).to(3, masqueraded(Far1), d.kind)},
			}})
	}
	return table
}
