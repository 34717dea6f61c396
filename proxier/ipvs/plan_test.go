package ipvs

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// What is explained is what a Reset programs on a node with these addresses.
func TestLinesAreWhatAResetMakes(t *testing.T) {
	var addrs []netip.Addr
	for _, a := range []string{"10.0.0.2", "127.0.0.1", "169.254.1.1", "172.16.0.1"} {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	for name, cfg := range map[string]Config{
		"all": {}, "primary": {NodePortPrimary: true}, "some": {NodePortAddresses: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFakeKernel(t)
			k.device.state.elsewhere = addrs
			b := k.backend(cfg)
			p := portOf4("web", proxier.TCP, at(proxier.ClusterIP, "10.96.0.1", 80), at(proxier.ExternalIP, "172.16.0.1", 80),
				at(proxier.LoadBalancer, "192.0.2.1", 80), at(proxier.NodePort, "", 30080), to("10.244.1.21:80"))
			s := stateOf(p)
			if err := b.Reset(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			found, err := b.surveyLocked(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			present, err := b.presentLocked(t.Context(), found)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(present)
			want(t, "lines", b.Lines(s, p, addrs...), present)
		})
	}
	lines := newFakeKernel(t).backend(Config{}).Lines(stateOf(), np("np", 30080))
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "virtual server TCP 10.0.0.2:30080") }) {
		t.Errorf("without addresses: %q, want those of the node", lines)
	}
}

// Answers may wait in a connection after an error: it is not used again.
func TestPlanHangsUpAfterAnError(t *testing.T) {
	k := newFakeKernel(t)
	b := k.backend(Config{})
	for _, tt := range []struct {
		name         string
		before       func()
		open, dialed int
	}{
		{"nothing in force", func() {}, 0, 1},
		{"something in force", func() { reset(t, b, web("10.244.1.21:8080")) }, 1, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.before()
			k.broken = errors.New("broken")
			if _, err := b.Plan(t.Context(), stateOf()); !errors.Is(err, k.broken) {
				t.Errorf("Plan = %v, want what went wrong", err)
			}
			k.broken = nil
			if k.open != tt.open || k.dialed != tt.dialed {
				t.Errorf("%d connections of %d are open, want %d of %d", k.open, k.dialed, tt.open, tt.dialed)
			}
		})
	}
	apply(t, b, web("10.244.1.22:8080"))
}
