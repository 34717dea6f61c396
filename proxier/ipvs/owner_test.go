package ipvs

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// crowded is a kernel with virtual servers of somebody else: at an address of the node, at
// one that is no address here, in an excluded range, and by a mark.
func crowded(t *testing.T, tookOver bool) *fakeKernel {
	t.Helper()
	k := newFakeKernel(t)
	k.device.state = deviceState{
		exists: true, ours: tookOver,
		bound:     []netip.Addr{netip.MustParseAddr("10.96.0.9"), netip.MustParseAddr("192.0.2.200")},
		elsewhere: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
	}
	for _, at := range []string{"10.0.0.2:30099", "203.0.113.1:80", "192.0.2.200:80", "10.96.0.9:80"} {
		k.virtual[keyOf(proxier.TCP, at)] = &fakeServer{settings: settings{scheduler: "rr"}}
	}
	k.virtual[serverKey{family: proxier.IPv4, mark: 77}] = &fakeServer{settings: settings{scheduler: "wlc"}}
	return k
}

func TestOthersKeepTheirVirtualServers(t *testing.T) {
	cfg := Config{ExcludeCIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.192/26")}}
	for _, tt := range []struct {
		name     string
		tookOver bool
		left     []string
	}{
		{"after a Backend", true, []string{"TCP 10.0.0.2:30099 rr", "TCP 192.0.2.200:80 rr", "TCP 203.0.113.1:80 rr", "mark 0x4d IPv4 wlc"}},
		{"after kube-proxy, which is alone at addresses of the node", false, []string{"TCP 192.0.2.200:80 rr", "TCP 203.0.113.1:80 rr", "mark 0x4d IPv4 wlc"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := crowded(t, tt.tookOver)
			b := k.backend(cfg)
			reset(t, b, portOf4("np", proxier.TCP, at(proxier.NodePort, "", 30080), at(proxier.ClusterIP, "10.96.0.1", 80), to("10.244.1.21:80")))
			all := append(slices.Clone(tt.left), "TCP 10.0.0.2:30080 rr 10.244.1.21:80=1", "TCP 10.96.0.1:80 rr 10.244.1.21:80=1")
			slices.Sort(all)
			want(t, "after a Reset", k.lines(), all)
			// A process that knows nothing cleans up.
			if err := k.backend(cfg).Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(t, "after Cleanup", k.lines(), tt.left)
			if k.device.state.exists || k.rules.there || len(k.rules.elements) > 0 {
				t.Error("the device or the table is left")
			}
			if err := k.backend(cfg).Cleanup(t.Context()); err != nil {
				t.Errorf("Cleanup of nothing: %v", err)
			}
		})
	}
}

func TestWhatAnEarlierProcessMadeGoes(t *testing.T) {
	k := newFakeKernel(t)
	k.device.state.elsewhere = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	web := portOf4("web", proxier.TCP, at(proxier.NodePort, "", 30080), at(proxier.ClusterIP, "10.96.0.1", 80), to("10.244.1.21:80"))
	gone := portOf4("gone", proxier.UDP, at(proxier.NodePort, "", 30081), at(proxier.ClusterIP, "10.96.0.2", 80))
	reset(t, k.backend(Config{}), web, gone)
	k.taken()
	reset(t, k.backend(Config{}), web)
	want(t, "operations", k.taken(), []string{"delete virtual server UDP 10.0.0.2:30081", "delete virtual server UDP 10.96.0.2:80"})
	want(t, "addresses", k.device.log, []string{"+10.96.0.1", "+10.96.0.2", "-10.96.0.2"})
}
