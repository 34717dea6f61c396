package iptables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// randomPort is one of a few Services, with some of everything.
func randomPort(r *rand.Rand, n int) *proxier.ServicePort {
	p := servicePort(fmt.Sprintf("svc-%d", n), fmt.Sprintf("10.96.1.%d", n))
	maybe := func() bool { return r.IntN(3) == 0 }
	for e := range 4 {
		if r.IntN(2) == 0 {
			at := proxier.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(n), byte(9 + e)}), uint16(8080+r.IntN(2)))}
			p.Cluster = append(p.Cluster, at)
			if e%2 == 0 {
				p.Local = append(p.Local, at)
			}
		}
	}
	p.HasEndpoints = len(p.Cluster) > 0
	if p.ExternalLocal, p.InternalLocal = maybe(), maybe(); !p.ExternalLocal && !p.InternalLocal {
		p.Local = nil
	}
	if maybe() {
		p.Frontends = append(p.Frontends, nodePort(uint16(30000+n)))
	}
	if maybe() {
		p.Frontends = append(p.Frontends, vip(proxier.ExternalIP, fmt.Sprintf("192.0.2.%d", n)))
	}
	if maybe() {
		p.Frontends = append(p.Frontends, vip(proxier.LoadBalancer, fmt.Sprintf("203.0.113.%d", n)))
		if maybe() {
			p.SourceRanges = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(r.IntN(2)), 0}), 24)}
		}
	}
	if maybe() {
		p.Affinity = time.Minute
	}
	return p
}

// TestRulesEqualAFreshStartWhateverHappens changes Services at random, while some calls
// of iptables-restore fail half way, and compares with a Backend that knows the end
// alone.
func TestRulesEqualAFreshStartWhateverHappens(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			c := newCommands()
			failing := 0
			be := newFake(t, c, ipv4(Config{Local: Local{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}}))
			c.before = func(cmd Command) (Result, bool) { return failHalfWay(c, cmd, &failing) }
			now := map[int]*proxier.ServicePort{}
			mustReset(t, be)
			for range 50 {
				if r.IntN(8) == 0 {
					failing = 1 + r.IntN(2)
				}
				d := randomDelta(r, now)
				err := be.Apply(t.Context(), d)
				for err != nil { // as a Proxier does
					err = be.Reset(t.Context(), stateOf(now))
				}
			}
			fresh := newCommands()
			mustReset(t, newFake(t, fresh, be.cfg), stateOf(now).Ports...)
			if diff := cmp.Diff(fresh.rulesOf("iptables-nft"), c.rulesOf("iptables-nft")); diff != "" {
				t.Errorf("rules differ from a fresh start (-want +got):\n%s", diff)
			}
			if plan, err := be.Plan(t.Context(), stateOf(now)); err != nil || len(plan) > 0 {
				t.Errorf("a Reset would change %q, %v", plan, err)
			}
		})
	}
}

// failHalfWay has the first table in force, and refuses the second.
func failHalfWay(c *commands, cmd Command, failing *int) (Result, bool) {
	if *failing == 0 || !strings.HasSuffix(cmd.Name, "-restore") {
		return Result{}, false
	}
	*failing--
	first, _, _ := strings.Cut(string(cmd.Stdin), commit)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restore(strings.TrimSuffix(cmd.Name, "-restore"), first+commit)
	return Result{Status: 2, Stderr: []byte("iptables-restore: line 999 failed\n")}, true
}

// randomDelta changes now, too.
func randomDelta(r *rand.Rand, now map[int]*proxier.ServicePort) proxier.Delta {
	var d proxier.Delta
	for _, n := range r.Perm(20)[:1+r.IntN(12)] {
		n++
		if old := now[n]; old != nil && r.IntN(3) == 0 {
			d.Remove = append(d.Remove, old.Key)
			delete(now, n)
			continue
		}
		now[n] = randomPort(r, n)
		d.Update = append(d.Update, now[n])
	}
	slices.SortFunc(d.Update, func(a, b *proxier.ServicePort) int { return a.Key.Compare(b.Key) })
	return d
}

func stateOf(now map[int]*proxier.ServicePort) *proxier.State {
	s := &proxier.State{}
	for _, p := range now {
		s.Ports = append(s.Ports, p)
	}
	slices.SortFunc(s.Ports, func(a, b *proxier.ServicePort) int { return a.Key.Compare(b.Key) })
	return s
}
