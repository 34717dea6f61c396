//go:build linux

package conntrack

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// One flow that the kernel does not delete keeps no other.
func TestKernelOneFlowThatStaysKeepsNoOther(t *testing.T) {
	ns := netnstest.New(t)
	entry(t, ns, 1001, "10.96.0.10:53", "10.244.0.5:53")
	entry(t, ns, 1002, "10.96.0.10:53", "10.244.0.6:53")
	k, err := dial(ns.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	var all []flow
	if _, err := k.flows(t.Context(), proxier.IPv4, frontend{}, func(some []flow) error {
		all = append(all, some...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	odd := flow{orig: []byte{1, 2, 3, 4}} // no tuple
	gone, err := k.forget(t.Context(), proxier.IPv4, append([]flow{odd}, all...))
	if gone != 2 || err == nil {
		t.Errorf("%d flows are gone, %v; want 2 and the error of the other", gone, err)
	}
	if diff := cmp.Diff([]string(nil), table(t, ns)); diff != "" {
		t.Errorf("flows that are left (-want +got):\n%s", diff)
	}
}

// The address of a peer is not one of the node.
func TestKernelPeersAreNotTheNode(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP(t, "link", "add", "ptp", "type", "veth", "peer", "name", "other")
	ns.IP(t, "addr", "add", "192.0.2.1", "peer", "192.0.2.2/32", "dev", "ptp")
	ns.IP(t, "addr", "add", "2001:db8::1", "peer", "2001:db8::2/128", "dev", "ptp")
	ns.IP(t, "addr", "add", "2001:db8:1::1/64", "dev", "ptp")
	k, err := dial(ns.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	for text, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.2": false, "2001:db8::1": true, "2001:db8::2": false, "2001:db8:1::1": true, "127.0.0.1": true,
	} {
		a := netip.MustParseAddr(text)
		local, err := k.localAddrs(t.Context(), proxier.FamilyOf(a))
		if err != nil {
			t.Fatal(err)
		}
		if local[a] != want {
			t.Errorf("%s is the node's: %v, want %v", a, local[a], want)
		}
	}
}
