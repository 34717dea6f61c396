package proxier

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// endpointSlice is what the Tracker keeps of an EndpointSlice.
type endpointSlice struct {
	service   string
	family    Family
	ports     []slicePort
	endpoints []endpoint
}

// slicePort is one port that all endpoints of a slice have.
type slicePort struct {
	name     string
	protocol Protocol
	port     uint16
}

// endpoint is one address of a slice. It is kept once for all ports.
type endpoint struct {
	addr netip.Addr
	// zones are the hinted zones, joined by commas, which no zone name contains.
	// Few distinct values exist, so they are shared.
	zones unique.Handle[string]
	flags endpointFlags
}

// endpointFlags are the conditions and hints of an endpoint, as this node sees them.
type endpointFlags uint8

const (
	ready endpointFlags = 1 << iota
	serving
	terminating
	local
	nodeHints  // has hints for nodes
	nodeHinted // and one of them is this node
	zoneHints  // has hints for zones
)

func (f endpointFlags) has(all endpointFlags) bool { return f&all == all }

func (a *endpointSlice) equal(b *endpointSlice) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.service == b.service && a.family == b.family &&
		slices.Equal(a.ports, b.ports) && slices.Equal(a.endpoints, b.endpoints)
}

// port returns the port number that the slice has for a port of the Service.
func (a *endpointSlice) port(name string, protocol Protocol) (uint16, bool) {
	for _, p := range a.ports {
		if p.name == name && p.protocol == protocol {
			return p.port, true
		}
	}
	return 0, false
}

func (a *endpointSlice) zoned() bool {
	return slices.ContainsFunc(a.endpoints, func(e endpoint) bool { return e.flags.has(zoneHints) })
}

// parseSlice returns what to keep of es, nil if it is not to be served, and what
// is wrong with it.
func parseSlice(es *discoveryv1.EndpointSlice, nodeName string) (*endpointSlice, []Problem) {
	_, headless := es.Labels[corev1.IsHeadlessService]
	service := es.Labels[discoveryv1.LabelServiceName]
	if headless || service == "" {
		return nil, nil
	}
	p := &problems{kind: "EndpointSlice", namespace: es.Namespace, name: es.Name}
	s := &endpointSlice{service: service}
	switch es.AddressType {
	case discoveryv1.AddressTypeIPv4:
		s.family = IPv4
	case discoveryv1.AddressTypeIPv6:
		s.family = IPv6
	default:
		p.add("addressType", "%q is not IPv4 or IPv6; the slice is skipped", es.AddressType)
		return s, p.list // of no family, so no port finds it
	}
	s.ports = parseSlicePorts(es, p)
	s.endpoints = make([]endpoint, 0, len(es.Endpoints))
	for i := range es.Endpoints {
		addr, err := endpointAddr(&es.Endpoints[i], s.family)
		if err != nil {
			p.add(fmt.Sprintf("endpoints[%d].addresses", i), "%v; the endpoint is skipped", err)
			continue
		}
		s.endpoints = append(s.endpoints, parseEndpoint(&es.Endpoints[i], addr, nodeName))
	}
	// Sorted, so that a new order of the same endpoints is no change.
	slices.SortStableFunc(s.endpoints, func(a, b endpoint) int { return a.addr.Compare(b.addr) })
	return s, p.list
}

// parseSlicePorts reads the ports of a slice. One without a name is that of a Service whose
// only port has none either; one without a number ("all ports") is none of a Service
// (https://kubernetes.io/docs/reference/kubernetes-api/discovery/endpoint-slice-v1/).
func parseSlicePorts(es *discoveryv1.EndpointSlice, p *problems) []slicePort {
	ports := make([]slicePort, 0, len(es.Ports))
	for i, sp := range es.Ports {
		protocol, err := parseProtocol(orZero(sp.Protocol))
		switch {
		case err != nil:
			p.add(fmt.Sprintf("ports[%d].protocol", i), "%v; the port is skipped", err)
		case sp.Port == nil:
			p.add(fmt.Sprintf("ports[%d].port", i), "is not set, and a Service has no port for all of them; the port is skipped")
		case !validPort(*sp.Port):
			p.add(fmt.Sprintf("ports[%d].port", i), "%d is not a port; the port is skipped", *sp.Port)
		default:
			ports = append(ports, slicePort{name: intern(orZero(sp.Name)), protocol: protocol, port: uint16(*sp.Port)})
		}
	}
	return ports
}

// orZero returns what p points to, nothing for nil.
func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// endpointAddr returns the first address; the API says that all addresses of an
// endpoint are fungible.
func endpointAddr(e *discoveryv1.Endpoint, family Family) (netip.Addr, error) {
	if len(e.Addresses) == 0 {
		return netip.Addr{}, fmt.Errorf("there is no address")
	}
	a, err := parseAddr(e.Addresses[0])
	if err != nil {
		return netip.Addr{}, err
	}
	if FamilyOf(a) != family {
		return netip.Addr{}, fmt.Errorf("%s is not an %s address", a, family)
	}
	return a, checkRoutable(a)
}

func parseEndpoint(e *discoveryv1.Endpoint, addr netip.Addr, nodeName string) endpoint {
	out := endpoint{addr: addr}
	set := func(f endpointFlags, on bool) {
		if on {
			out.flags |= f
		}
	}
	unlessFalse := func(b *bool) bool { return b == nil || *b }
	set(ready, unlessFalse(e.Conditions.Ready))
	set(serving, unlessFalse(e.Conditions.Serving))
	set(terminating, e.Conditions.Terminating != nil && *e.Conditions.Terminating)
	set(local, e.NodeName != nil && *e.NodeName == nodeName)
	if e.Hints == nil {
		return out
	}
	for _, n := range e.Hints.ForNodes {
		set(nodeHints, true)
		set(nodeHinted, n.Name == nodeName)
	}
	if len(e.Hints.ForZones) > 0 {
		zones := make([]string, len(e.Hints.ForZones))
		for i, z := range e.Hints.ForZones {
			zones[i] = z.Name
		}
		slices.Sort(zones)
		out.zones = unique.Make(strings.Join(slices.Compact(zones), ","))
		out.flags |= zoneHints
	}
	return out
}

// inZone reports whether e is hinted for zone.
func (e endpoint) inZone(zone string) bool {
	if zone == "" || !e.flags.has(zoneHints) {
		return false
	}
	for z := range strings.SplitSeq(e.zones.Value(), ",") {
		if z == zone {
			return true
		}
	}
	return false
}
