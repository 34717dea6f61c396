//go:build linux

package nftables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// Whatever the order of events, the kernel has in the end what it has when the
// last state is programmed from scratch.
func TestKernelRandomEventsEqualAFreshStart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, seed))
			cfg := Config{Local: podNet()}
			grown := newBackend(t, netnstest.New(t), cfg)
			fresh := newBackend(t, netnstest.New(t), cfg)
			state := make(map[proxier.Key]*proxier.ServicePort)
			reset(t, grown)
			for step := range 25 {
				apply(t, grown, randomDelta(random, state))
				if step%10 == 9 {
					reset(t, grown, ports(state)...)
				}
				reset(t, fresh, ports(state)...)
				if diff := cmp.Diff(canonical(t, fresh), canonical(t, grown)); diff != "" {
					t.Fatalf("step %d: kernel after the events (-from scratch +got):\n%s", step, diff)
				}
			}
			var d proxier.Delta
			for k := range state {
				d.Remove = append(d.Remove, k)
			}
			apply(t, grown, d)
			if left := dumpAll(t, grown); len(left) > 0 {
				t.Errorf("elements after the last Service went: %q", left)
			}
			if len(grown.refs) > 0 || len(grown.entries) > 0 {
				t.Errorf("%d references and %d entries are left", len(grown.refs), len(grown.entries))
			}
		})
	}
}

func ports(state map[proxier.Key]*proxier.ServicePort) []*proxier.ServicePort {
	var out []*proxier.ServicePort
	for _, p := range state {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *proxier.ServicePort) int { return a.Key.Compare(b.Key) })
	return out
}

// randomDelta changes state by a few events and returns them as a Delta. Two
// Services sometimes swap their external address.
func randomDelta(r *rand.Rand, state map[proxier.Key]*proxier.ServicePort) proxier.Delta {
	var d proxier.Delta
	for i := range 5 {
		if r.IntN(2) == 0 {
			continue
		}
		p := randomPort(r, i)
		if r.IntN(5) == 0 {
			delete(state, p.Key)
			d.Remove = append(d.Remove, p.Key)
			continue
		}
		state[p.Key] = p
	}
	swap := r.IntN(5)
	for i := range 5 {
		if p := state[randomPort(r, i).Key]; p != nil {
			p = withoutFrontend(p, proxier.ExternalIP)
			if i == swap {
				p.Frontends = append(p.Frontends, proxier.Frontend{
					Kind: proxier.ExternalIP, Addr: netip.MustParseAddr("192.0.2.99"), Port: 80,
				})
			}
			state[p.Key] = p
			d.Update = append(d.Update, p)
		}
	}
	return d
}

func withoutFrontend(p *proxier.ServicePort, kind proxier.FrontendKind) *proxier.ServicePort {
	c := *p
	c.Frontends = slices.DeleteFunc(slices.Clone(c.Frontends), func(f proxier.Frontend) bool { return f.Kind == kind })
	return &c
}

func randomPort(r *rand.Rand, i int) *proxier.ServicePort {
	var opts []option
	for ep := range 6 {
		addr := fmt.Sprintf("10.244.1.%d:8080", ep+1)
		switch r.IntN(4) {
		case 0:
			opts = append(opts, on(addr))
		case 1:
			opts = append(opts, far(addr))
		}
	}
	yes := func(o option) {
		if r.IntN(3) == 0 {
			opts = append(opts, o)
		}
	}
	yes(externalPolicyLocal)
	yes(internalPolicyLocal)
	yes(sticky(time.Hour))
	yes(at(proxier.NodePort, "", uint16(30000+i)))
	if r.IntN(3) == 0 {
		opts = append(opts, at(proxier.LoadBalancer, fmt.Sprintf("192.0.2.%d", i), 80))
		yes(sources("198.51.100.0/24", "203.0.113.0/24"))
		yes(sources("198.51.0.0/16"))
	}
	return service(fmt.Sprintf("service-%d", i), proxier.TCP, fmt.Sprintf("10.96.0.%d:80", i+1), opts...)
}

// The numbers of slots and affinity lists depend on history.
var (
	slotNumber = regexp.MustCompile(`^((?:nodeport-)?(?:local-)?endpoints \{ .*) \. \d+ : `)
	pinNumber  = regexp.MustCompile(`^affinity-slots \{ \d+ : `)
	listNumber = regexp.MustCompile(`affinity-\d+ \}$`)
)

// canonical returns what the kernel has, without what depends on history.
func canonical(t *testing.T, b *Backend) []string {
	t.Helper()
	wantContiguousSlots(t, b)
	var out []string
	for _, e := range dumpAll(t, b) {
		e = slotNumber.ReplaceAllString(e, "$1 : ")
		e = pinNumber.ReplaceAllString(e, "affinity-slots { ")
		out = append(out, listNumber.ReplaceAllString(e, "affinity }"))
	}
	slices.Sort(out)
	return out
}

// wantContiguousSlots checks that the slots of each list are 0…K-1: a gap would
// lose connections.
func wantContiguousSlots(t *testing.T, b *Backend) {
	t.Helper()
	for k, e := range b.entries {
		for _, l := range render(e, b.policy(k.Family)).lists {
			have := elementsOf(t, b, l.in)
			for i := range l.slots {
				if want := l.element(i).String(); !slices.Contains(have, want) {
					t.Errorf("slot is missing: %s", want)
				}
			}
		}
	}
}
