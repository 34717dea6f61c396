package ipvs

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// TestKernelTablesHoldWhatTheyAreGiven programs the tables of both families, which need no IPVS.
func TestKernelTablesHoldWhatTheyAreGiven(t *testing.T) {
	ns := netnstest.New(t)
	both := []proxier.Family{proxier.IPv4, proxier.IPv6}
	tables := &tables{netns: ns.Path(), name: DefaultTable, families: both}
	t.Cleanup(func() { _ = tables.close() })
	ctx := t.Context()
	var programs []program
	var elements []element
	for i, f := range both {
		a := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:80"), netip.MustParseAddrPort("[2001:db8::1]:80")}[i]
		cidrs := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/64")}
		programs = append(programs, program{
			family: f, masquerade: 1 << DefaultMasqueradeBit, shortcuts: DefaultMarks << 16, serviceCIDRs: cidrs, local: Local{ClusterCIDRs: cidrs},
		})
		for o := range objectCount {
			e := element{in: o, family: f, at: a, proto: proxier.TCP}
			switch o {
			case serviceIPs:
				e.at, e.proto = netip.AddrPortFrom(a.Addr(), 0), 0
			case healthPorts:
				e.at = netip.AddrPortFrom(netip.Addr{}, 31000)
			case externalLocal:
				e.mark = DefaultMarks<<16 + 1
			case sources:
				e.source = netip.PrefixFrom(a.Addr(), 20).Masked()
			}
			elements = append(elements, e)
		}
	}
	slices.SortFunc(elements, element.compare)
	before, err := tables.generation(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Each change is one transaction, which the number tells.
	for i, change := range []func() error{
		func() error { return tables.reset(ctx, programs, elements[:len(elements)-1]) },
		func() error { return tables.apply(ctx, elements[:1], elements[len(elements)-1:]) },
		func() error { return tables.apply(ctx, nil, nil) },
		func() error { return tables.reset(ctx, programs, elements) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if now, err := tables.generation(ctx); err != nil || now != before+[]uint32{1, 2, 2, 3}[i] {
			t.Errorf("generation after change %d = %d, %v, began with %d", i, now, err, before)
		}
	}
	if ok, err := tables.intact(ctx, programs); !ok || err != nil {
		t.Errorf("intact = %v, %v", ok, err)
	}
	var got []element
	for o := range objectCount {
		found, err := tables.list(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, found...)
	}
	slices.SortFunc(got, element.compare)
	if !slices.Equal(got, elements) {
		t.Errorf("elements %v, want %v", got, elements)
	}
	if err := tables.remove(ctx); err != nil {
		t.Fatal(err)
	}
	if found, err := tables.list(ctx, owned); err != nil || len(found) > 0 {
		t.Errorf("after remove: %v, %v", found, err)
	}
}

// TestKernelHealthPortAnswersAtAddressesOfServices asks a node that listens at all of its addresses, one of
// which is a Service's: the rules need no IPVS for what they refuse.
func TestKernelHealthPortAnswersAtAddressesOfServices(t *testing.T) {
	node, client := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t,
		netnstest.End{NS: node, Name: "client", Addrs: []string{"10.1.0.1/24", "fd00:1::1/64"}},
		netnstest.End{NS: client, Name: "eth0", Addrs: []string{"10.1.0.2/24", "fd00:1::2/64"}})
	client.IP(t, "route", "add", "default", "via", "10.1.0.1")
	client.IP(t, "-6", "route", "add", "default", "via", "fd00:1::1")
	netnstest.Address(t, node, "lo", "192.0.2.2/32", "2001:db8::2/128")
	for _, port := range []string{"80", "9999", "31000"} {
		l, err := node.Listen("tcp", "[::]:"+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	lb := func(family proxier.Family, addr string) view {
		p := portOf4("lb", proxier.TCP, at(proxier.LoadBalancer, addr, 80), to("10.244.1.21:80"))
		p.Key.Family, p.Cluster, p.HealthCheckNodePort = family, nil, 31000
		return render(p, surroundings{}, DefaultScheduler, 0)
	}
	l, c := newLedger(), newChanges()
	key := func(f proxier.Family) proxier.Key { return proxier.Key{Family: f} }
	l.replace(c, key(proxier.IPv4), &proxier.ServicePort{}, lb(proxier.IPv4, "192.0.2.2"))
	l.replace(c, key(proxier.IPv6), &proxier.ServicePort{}, lb(proxier.IPv6, "2001:db8::2"))
	_, elements := c.elements(l)
	// It has endpoints, which are not what is asked for.
	elements = slices.DeleteFunc(elements, func(e element) bool { return e.in == dropped })
	tables := &tables{netns: node.Path(), name: DefaultTable, families: []proxier.Family{proxier.IPv4, proxier.IPv6}}
	t.Cleanup(func() { _ = tables.close() })
	programs := []program{
		{family: proxier.IPv4, masquerade: 1 << DefaultMasqueradeBit, shortcuts: DefaultMarks << 16},
		{family: proxier.IPv6, masquerade: 1 << DefaultMasqueradeBit, shortcuts: DefaultMarks << 16},
	}
	if err := tables.reset(t.Context(), programs, elements); err != nil {
		t.Fatal(err)
	}
	for _, from := range []*netnstest.NS{client, node} {
		for _, addr := range []string{"192.0.2.2", "[2001:db8::2]"} {
			for port, want := range map[string]error{"80": nil, "31000": nil, "9999": unix.ECONNREFUSED} {
				c, err := from.Dial("tcp", addr+":"+port, patience)
				if !errors.Is(err, want) {
					t.Errorf("connect to %s:%s: %v, want %v", addr, port, err, want)
				}
				if err == nil {
					_ = c.Close()
				}
			}
		}
	}
}
