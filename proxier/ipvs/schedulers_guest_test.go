package ipvs

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// spreading is what a scheduler makes of connections that stay open.
type spreading struct {
	scheduler   string
	connections int
	// want is how many each pod gets, and near by how many that may be off.
	want []int
	near int
	// one says that all go to one pod, which weighs as much as the others, and enough; all that a
	// hash of each connection spreads them: that one of the pods gets none has odds below 10⁻⁹.
	one, all bool
	// active says that it goes by the number of active connections. The kernel counts none for
	// flows of UDP: all go to one pod.
	active bool
}

// spreadings has all schedulers. The endpoint of this node weighs 3 and the two others 1 each, where
// not said otherwise.
func spreadings() []spreading {
	return []spreading{
		{scheduler: "rr", connections: 12, want: []int{4, 4, 4}},
		{scheduler: "wrr", connections: 10, want: []int{6, 2, 2}},
		{scheduler: "lc", connections: 12, want: []int{4, 4, 4}},
		{scheduler: "wlc", connections: 10, want: []int{6, 2, 2}, near: 1},
		{scheduler: "sed", connections: 10, want: []int{6, 2, 2}, near: 1, active: true},
		{scheduler: "nq", connections: 10, want: []int{6, 2, 2}, near: 1, active: true},
		{scheduler: "sh", connections: 6, one: true},
		{scheduler: "dh", connections: 6, one: true},
		{scheduler: "lblc", connections: 6, one: true},
		{scheduler: "lblcr", connections: 6, one: true},
		{scheduler: "mh", connections: 100, all: true},
		{scheduler: "fo", connections: 6, want: []int{6, 0, 0}},
		{scheduler: "ovf", connections: 8, want: []int{4, 2, 2}, active: true},
	}
}

func TestInGuestSchedulers(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{})
	reset(t, b)
	for _, tt := range spreadings() {
		t.Run(tt.scheduler, func(t *testing.T) { s.spread(t, b, tt, proxier.IPv4, proxier.TCP) })
	}
}

// TestInGuestProtocolsOfSchedulers is TestInGuestSchedulers for both families and all protocols.
func TestInGuestProtocolsOfSchedulers(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	families := []proxier.Family{proxier.IPv4, proxier.IPv6}
	b := s.backend(t, Config{Families: families})
	reset(t, b)
	for _, family := range families {
		for _, proto := range []proxier.Protocol{proxier.TCP, proxier.UDP, proxier.SCTP} {
			for _, tt := range spreadings() {
				t.Run(fmt.Sprintf("%s/%s/%s", family, proto, tt.scheduler), func(t *testing.T) { s.spread(t, b, tt, family, proto) })
			}
		}
	}
}

// spread opens connections to a Service with a scheduler, and counts who has them.
func (s *site) spread(t *testing.T, b *Backend, tt spreading, family proxier.Family, proto proxier.Protocol) {
	t.Helper()
	balance := proxier.Balance{Scheduler: tt.scheduler, LocalWeight: 3}
	if tt.one {
		balance.LocalWeight, balance.OtherWeight = 100, 100
	}
	if proto == proxier.UDP && tt.active {
		tt.one, tt.want = true, nil
	}
	frontend, addr := vip, podAddr
	if family == proxier.IPv6 {
		frontend, addr = vip6, podAddr6
	}
	// Each has a port of its own: the kernel remembers flows of UDP.
	s.spreads++
	svc := portOf4("web", proto, at(proxier.ClusterIP, frontend, s.spreads), to(addr(0)+"(here)", addr(1), addr(2)), func(p *proxier.ServicePort) {
		p.Balance, p.Key.Family = balance, family
	})
	apply(t, b, svc)
	counts := map[string]int{}
	var open []*talk
	for range tt.connections {
		c, err := s.connectBy(t, proto, net.JoinHostPort(frontend, fmt.Sprint(s.spreads)))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		counts[c.with]++
	}
	got := []int{counts[addr(0)], counts[addr(1)], counts[addr(2)]}
	t.Logf("%v", got)
	if sum := got[0] + got[1] + got[2]; sum != tt.connections {
		t.Errorf("%d of %d connections met a pod: %v", sum, tt.connections, counts)
	}
	if tt.one && slices.Max(got) != tt.connections {
		t.Errorf("connections by pod = %v, want all at one", got)
	}
	if tt.all && slices.Min(got) == 0 {
		t.Errorf("connections by pod = %v, want some at each", got)
	}
	for i, n := range tt.want {
		if got[i] < n-tt.near || got[i] > n+tt.near {
			t.Errorf("connections by pod = %v, want %v, %d off at most", got, tt.want, tt.near)
			break
		}
	}
	for _, c := range open {
		if proto == proxier.TCP {
			if err := c.works(); err != nil {
				t.Errorf("a connection to %s broke: %v", c.with, err)
			}
		}
		_ = c.Close()
	}
	if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{svc.Key}}); err != nil {
		t.Fatal(err)
	}
}

const vip6 = "fd00:96::10"

// A client stays at its endpoint while it is there, and only then.
func TestInGuestAffinity(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{})
	sticky := func(pods ...int) *proxier.ServicePort {
		p := service(proxier.TCP, proxier.Balance{}, pods...)
		p.Affinity = 3 * 3600e9
		return p
	}
	meet := func(n int) map[string]bool {
		met := map[string]bool{}
		for range n {
			c, err := s.connect(t, vip+":80")
			if err != nil {
				t.Fatal(err)
			}
			met[c.with] = true
			_ = c.Close()
		}
		return met
	}
	reset(t, b, sticky(1))
	for _, step := range []struct {
		pods []int
		want map[string]bool
	}{
		{[]int{1}, map[string]bool{podAddr(1): true}},
		{[]int{0, 1, 2}, map[string]bool{podAddr(1): true}},
		{[]int{2}, map[string]bool{podAddr(2): true}},
		{[]int{0, 2}, map[string]bool{podAddr(2): true}},
	} {
		apply(t, b, sticky(step.pods...))
		if diff := cmp.Diff(step.want, meet(6)); diff != "" {
			t.Errorf("with pods %v a client meets (-want +got):\n%s", step.pods, diff)
		}
	}
	apply(t, b, service(proxier.TCP, proxier.Balance{}, 0, 2))
	if met := meet(6); len(met) != 2 {
		t.Errorf("without affinity a client meets %v, want both", met)
	}
}
