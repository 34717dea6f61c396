package proxiertest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/proxier"
)

// fate is what becomes of a connection.
type fate uint8

const (
	served fate = iota + 1
	refused
	dropped
	untold // refused or dropped: which of them, SCTP does not always tell
)

func (f fate) String() string {
	return map[fate]string{served: "served", refused: "refused", dropped: "dropped", untold: "refused or dropped"}[f]
}

// outcome is what one connection found.
type outcome struct {
	fate     fate
	endpoint netip.Addr
	// source is the address that the endpoint saw.
	source netip.Addr
}

// flow is one line of the table: connections from a host to one frontend of a Service,
// and what becomes of them, in both families and for each protocol.
type flow struct {
	from Host
	kind proxier.FrontendKind
	// to is the number of the Service.
	to   int
	want expectation
}

// target is the address that f goes to.
func target(f flow, services []service, family proxier.Family) netip.AddrPort {
	i := slices.IndexFunc(services, func(s service) bool { return s.number == f.to })
	if i < 0 {
		return frontendOf(f.to, f.kind, family)
	}
	return services[i].frontend(f.kind, family)
}

func (f flow) String() string { return fmt.Sprintf("%s to %s of %d", f.from, f.kind, f.to) }

// expectation is what becomes of the connections of a flow.
type expectation struct {
	fate fate
	// among are the endpoints that serve, each of them some of the connections.
	among []Host
	// any says that each of among may serve, and none need.
	any bool
	// masqueraded says that endpoints see an address of the node instead of the
	// client's. It says nothing about connections from OurNode, which have one anyway.
	masqueraded bool
}

func (e expectation) String() string {
	if e.fate != served {
		return e.fate.String()
	}
	var names []string
	for _, h := range e.among {
		names = append(names, h.String())
	}
	s := strings.Join(names, ",")
	if e.masqueraded {
		s += " masqueraded"
	}
	return s
}

func by(among ...Host) expectation { return expectation{fate: served, among: among} }
func masqueraded(among ...Host) expectation {
	return expectation{fate: served, among: among, masqueraded: true}
}

func either(among ...Host) expectation {
	return expectation{fate: served, among: among, masqueraded: true, any: true}
}

func expect(f fate) expectation { return expectation{fate: f} }

// hiddenBy are the addresses that masquerading may put in the place of a client's.
func hiddenBy(family proxier.Family) []netip.Addr {
	text := []string{"10.0.0.2", "198.51.100.1", "10.0.3.1", "10.244.1.1", "10.244.2.1", "10.244.3.1"}
	if family == proxier.IPv6 {
		text = []string{"2001:db8:1::2", "2001:db8:f::1", "2001:db8:3::1", "fd00:244:1::1", "fd00:244:2::1", "fd00:244:3::1"}
	}
	var addrs []netip.Addr
	for _, s := range text {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	return addrs
}

// check returns what is wrong with one outcome of a flow, or nothing.
func (f flow) check(family proxier.Family, got outcome) string {
	if f.want.fate == untold && got.fate != served {
		return ""
	}
	if got.fate != f.want.fate {
		return fmt.Sprintf("%s, want %s", got.describe(), f.want)
	}
	if got.fate != served {
		return ""
	}
	if !slices.ContainsFunc(f.want.among, func(h Host) bool { return h.Addr(family) == got.endpoint }) {
		return fmt.Sprintf("%s, want %s", got.describe(), f.want)
	}
	if f.from == OurNode {
		return ""
	}
	// A pod that is sent to itself must not see its own address, whatever else.
	hidden := f.want.masqueraded || f.from.Addr(family) == got.endpoint
	if want := f.from.Addr(family); !hidden && got.source != want {
		return fmt.Sprintf("%s, want the client's own address", got.describe())
	}
	if hidden && !slices.Contains(hiddenBy(family), got.source) {
		return fmt.Sprintf("%s, want an address of the node", got.describe())
	}
	return ""
}

func (o outcome) describe() string {
	if o.fate != served {
		return o.fate.String()
	}
	return fmt.Sprintf("served by %s, which saw %s", o.endpoint, o.source)
}
