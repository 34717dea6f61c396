package ipvs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// TestInGuestSchedulers sees what each scheduler makes of connections that stay open: the
// endpoint of this node weighs 3 and the two others 1 each, where not said otherwise.
func TestInGuestSchedulers(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{})
	reset(t, b)
	for _, tt := range []struct {
		scheduler   string
		connections int
		// want is how many each pod gets, and near by how many that may be off; nil says that
		// a hash chooses.
		want []int
		near int
		// one says that all go to one pod, which weighs as much as the others, and enough.
		one bool
	}{
		{scheduler: "rr", connections: 12, want: []int{4, 4, 4}},
		{scheduler: "wrr", connections: 10, want: []int{6, 2, 2}},
		{scheduler: "lc", connections: 12, want: []int{4, 4, 4}},
		{scheduler: "wlc", connections: 10, want: []int{6, 2, 2}, near: 1},
		{scheduler: "sed", connections: 10, want: []int{6, 2, 2}, near: 1},
		{scheduler: "nq", connections: 10, want: []int{6, 2, 2}, near: 1},
		{scheduler: "sh", connections: 6, one: true},
		{scheduler: "dh", connections: 6, one: true},
		{scheduler: "lblc", connections: 6, one: true},
		{scheduler: "lblcr", connections: 6, one: true},
		{scheduler: "mh", connections: 12},
		{scheduler: "fo", connections: 6, want: []int{6, 0, 0}},
		{scheduler: "ovf", connections: 8, want: []int{4, 2, 2}},
	} {
		t.Run(tt.scheduler, func(t *testing.T) {
			balance := proxier.Balance{Scheduler: tt.scheduler, LocalWeight: 3}
			if tt.one {
				balance.LocalWeight, balance.OtherWeight = 100, 100
			}
			apply(t, b, service(proxier.TCP, balance, 0, 1, 2))
			counts := map[string]int{}
			var open []*talk
			for range tt.connections {
				c, err := s.connect(t, vip+":80")
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, c)
				counts[c.with]++
			}
			got := []int{counts[podAddr(0)], counts[podAddr(1)], counts[podAddr(2)]}
			t.Logf("%v", got)
			if tt.one && max(got[0], got[1], got[2]) != tt.connections {
				t.Errorf("connections by pod = %v, want all at one", got)
			}
			for i, n := range tt.want {
				if got[i] < n-tt.near || got[i] > n+tt.near {
					t.Errorf("connections by pod = %v, want %v, %d off at most", got, tt.want, tt.near)
					break
				}
			}
			for _, c := range open {
				if err := c.works(); err != nil {
					t.Errorf("a connection to %s broke: %v", c.with, err)
				}
				_ = c.Close()
			}
			if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{service(proxier.TCP, proxier.Balance{}).Key}}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

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
