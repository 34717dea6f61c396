package iptables

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestConfigIsChecked(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want string // empty: no error
	}{
		{name: "zero"},
		{name: "bit", cfg: Config{MasqueradeBit: new(32)}, want: "MasqueradeBit"},
		{name: "variant", cfg: Config{Variant: "bpf"}, want: "Variant"},
		{name: "family", cfg: Config{Families: []proxier.Family{5}}, want: "Families"},
		{name: "family twice", cfg: Config{Families: []proxier.Family{4, 4}}, want: "twice"},
		{name: "lock", cfg: Config{LockWait: -1}, want: "LockWait"},
		{name: "prefix", cfg: Config{NodePortAddresses: []netip.Prefix{{}}}, want: "NodePortAddresses"},
		{name: "two ways to tell pods", cfg: Config{Local: Local{BridgeInterface: "a", NodeCIDRs: true}}, want: "Local"},
		{name: "long interface", cfg: Config{Local: Local{BridgeInterface: "a-very-long-name"}}, want: "longer"},
		{name: "long interface prefix", cfg: Config{Local: Local{InterfaceNamePrefix: "fifteen-letters"}}, want: "longer than 14"},
		{name: "long enough interface prefix", cfg: Config{Local: Local{InterfaceNamePrefix: "fourteen-bytes"}}},
		{name: "long enough interface", cfg: Config{Local: Local{BridgeInterface: "fifteen-letters"}}},
		{name: "not an interface", cfg: Config{Local: Local{BridgeInterface: "a -j DROP"}}, want: "not the name"},
		{name: "two prefixes of a family", cfg: Config{Local: Local{ClusterCIDRs: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		}}}, want: "second prefix"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.cfg)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New() = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestApplyNeedsAResetFirst(t *testing.T) {
	c := newCommands()
	be := newFake(t, c, Config{})
	a := servicePort("a", "10.96.0.1", "10.244.0.1:80")
	if err := be.Apply(t.Context(), update(a)); !errors.Is(err, errNotInForce) {
		t.Errorf("Apply before Reset = %v", err)
	}
	mustReset(t, be)
	c.before = func(Command) (Result, bool) { return Result{Status: 1, Stderr: []byte("no\n")}, true }
	if err := be.Apply(t.Context(), update(a)); err == nil {
		t.Error("Apply = nil, want the error of iptables-restore")
	}
	c.before = nil
	if err := be.Apply(t.Context(), update(a)); !errors.Is(err, errNotInForce) {
		t.Errorf("Apply after an error = %v", err)
	}
}

func TestOneRestorePerFamily(t *testing.T) {
	c := newCommands()
	var seen []Restore
	be := newFake(t, c, Config{Observe: func(r Restore) { seen = append(seen, r) }})
	mustReset(t, be, servicePort("a", "10.96.0.1", "10.244.0.1:80"), servicePort("b", "fd00:96::1", "[fd00:244::1]:80"))
	want := []string{"ip6tables-nft-restore", "ip6tables-nft-save", "iptables-nft-restore", "iptables-nft-save"}
	got := slices.DeleteFunc(c.names(), func(n string) bool {
		return slices.Contains([]string{"iptables-nft", "ip6tables-nft", "iptables-legacy", "iptables-legacy-save", "ip6tables-legacy-save"}, n)
	})
	slices.Sort(got)
	// Once more to find the variant.
	want = append(want, "ip6tables-nft-save", "iptables-nft-save")
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands of a Reset (-want +got):\n%s", diff)
	}
	jumps := Rules{NAT: 3, Filter: 11}
	for _, r := range seen {
		if want := (Rules{NAT: 9, Filter: 3}); !r.Reset || r.Err != nil || r.Total != want || r.Written != want.plus(jumps) {
			t.Errorf("observed %+v, want a Reset of %+v", r, want)
		}
	}
	c.restored()
	mustApply(t, be, update(servicePort("b", "fd00:96::1", "[fd00:244::2]:80")))
	if diff := cmp.Diff([]string{"ip6tables-nft-restore"}, c.names()); diff != "" {
		t.Errorf("commands of an Apply (-want +got):\n%s", diff)
	}
	last := seen[len(seen)-1]
	if want := (Rules{NAT: 3}); last.Reset || last.Written != want || last.Total.NAT != 9 {
		t.Errorf("observed %+v, want %+v written", last, want)
	}
}

// Two Services, one of which the kernel refuses: the other one is programmed.
func TestOneServiceDoesNotStopTheOthers(t *testing.T) {
	c := newCommands()
	var problems []Problem
	be := newFake(t, c, ipv4(Config{Problem: func(p Problem) { problems = append(problems, p) }}))
	bad := servicePort("bad", "10.96.0.1", "10.244.0.1:80")
	good := servicePort("good", "10.96.0.2", "10.244.0.2:80")
	c.before = func(cmd Command) (Result, bool) { return refuse(cmd, "10.244.0.1:80") }
	mustReset(t, be, bad, good)
	if len(problems) != 1 || problems[0].Key != bad.Key || !strings.Contains(problems[0].Reason, "DNAT --to-destination 10.244.0.1:80") {
		t.Errorf("problems = %v, want one of bad with the line", problems)
	}
	saved := strings.Join(c.rulesOf("iptables-nft"), "\n")
	if strings.Contains(saved, "ns/bad") || !strings.Contains(saved, "ns/good") {
		t.Errorf("rules:\n%s", saved)
	}
	// An Apply tells, and leaves it to the Reset that follows.
	err := be.Apply(t.Context(), update(servicePort("bad", "10.96.0.3", "10.244.0.1:80")))
	if e, ok := errors.AsType[*RestoreError](err); !ok || e.Key != bad.Key || e.Line == 0 {
		t.Errorf("Apply = %v, want a RestoreError of bad", err)
	}
}

// refuse refuses rules that lead to an endpoint.
func refuse(cmd Command, endpoint string) (Result, bool) {
	for i, line := range strings.Split(string(cmd.Stdin), "\n") {
		if strings.Contains(line, "--to-destination "+endpoint) {
			return Result{Status: 2, Stderr: fmt.Appendf(nil, "iptables-restore: line %d failed\n", i+1)}, true
		}
	}
	return Result{}, false
}

// What fails once only, because something came in between, is not left out.
func TestARefusalIsTriedTwice(t *testing.T) {
	c := newCommands()
	be := newFake(t, c, ipv4(Config{}))
	refusals := 0
	c.before = func(cmd Command) (Result, bool) {
		r, refused := refuse(cmd, "10.244.0.1:80")
		if refused {
			refusals++
		}
		return r, refused && refusals == 1
	}
	mustReset(t, be, servicePort("a", "10.96.0.1", "10.244.0.1:80"))
	if got := strings.Join(c.rulesOf("iptables-nft"), "\n"); !strings.Contains(got, "10.244.0.1:80") {
		t.Errorf("it is left out:\n%s", got)
	}
}

func TestLinesOfAScriptHaveOwners(t *testing.T) {
	c := newCommands()
	be := newFake(t, c, ipv4(Config{}))
	a, b := servicePort("a", "10.96.0.1", "10.244.0.1:80"), servicePort("b", "10.96.0.2")
	mustReset(t, be, a, b)
	s := &be.rulesets[proxier.IPv4].script
	// What was written is still there.
	for i, line := range strings.Split(strings.TrimSuffix(string(s.buf), "\n"), "\n") {
		want := proxier.Key{}
		for _, p := range []*proxier.ServicePort{a, b} {
			if strings.Contains(line, "ns/"+p.Key.Name+":") {
				want = p.Key
			}
		}
		text, got := s.at(i + 1)
		if text != line || want != (proxier.Key{}) && got != want {
			t.Errorf("line %d %q: %q of %v, want %v", i+1, line, text, got, want)
		}
		if strings.HasPrefix(line, "*") || line+"\n" == commit || strings.Contains(line, canaryChain) {
			if got != (proxier.Key{}) {
				t.Errorf("line %d %q belongs to %v", i+1, line, got)
			}
		}
	}
}

func TestTheLockIsWaitedFor(t *testing.T) {
	tests := []struct {
		name string
		held time.Duration
		want bool // whether it is got
	}{
		{"for 10 s", 10 * time.Second, true},
		{"for good", time.Hour, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				c := newCommands()
				c.before = func(cmd Command) (Result, bool) {
					if !strings.HasSuffix(cmd.Name, "-restore") || time.Since(begin) >= tt.held {
						return Result{}, false
					}
					time.Sleep(5 * time.Second) //nolint:forbidigo // fake time
					return Result{Status: 4, Stderr: []byte("Another app is currently holding the xtables lock. Stopped waiting after 5s.\n")}, true
				}
				err := newFake(t, c, ipv4(Config{})).Reset(t.Context(), &proxier.State{})
				if (err == nil) != tt.want {
					t.Fatalf("Reset = %v, want success %v", err, tt.want)
				}
				if took := time.Since(begin); took > DefaultLockWait+10*time.Second {
					t.Errorf("it took %v", took)
				}
				if e, ok := errors.AsType[*RestoreError](err); err != nil && (!ok || !e.Locked) {
					t.Errorf("the error does not tell of the lock: %v", err)
				}
			})
		})
	}
}

// Where the lock is not to be had for the second table, the first one has changed already: what
// was deleted there cannot be deleted again.
func TestLockIsLostBetweenTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommands()
		be := newFake(t, c, Config{Variant: Legacy, Families: []proxier.Family{proxier.IPv6}})
		none := servicePort("none", "fd00:96::1")
		mustReset(t, be, none, servicePort("some", "fd00:96::2", "[fd00:244::1]:8080"))
		begun := 0 // tables
		c.before = func(cmd Command) (Result, bool) {
			for text := range strings.SplitSeq(string(cmd.Stdin), commit) {
				if text == "" {
					continue
				}
				if begun++; begun == 2 {
					time.Sleep(5 * time.Second) //nolint:forbidigo // fake time
					return Result{Status: 4, Stderr: []byte("Another app is currently holding the xtables lock. Stopped waiting after 5s.\n")}, true
				}
				c.mu.Lock()
				r := c.restore(strings.TrimSuffix(cmd.Name, "-restore"), text+commit)
				c.mu.Unlock()
				if r.Status != 0 {
					return r, true
				}
			}
			return Result{}, true
		}
		mustApply(t, be, update(servicePort("none", "fd00:96::1", "[fd00:244::2]:8080"), servicePort("some", "fd00:96::2")))
		if begun != 3 {
			t.Errorf("%d tables were begun, want filter, nat, and nat again", begun)
		}
	})
}

// The lock of iptables-legacy is one for both families: they do not wait for each other.
func TestFamiliesTakeTurnsForTheLock(t *testing.T) {
	for _, tt := range []struct {
		variant Variant
		want    int // runs at a time
	}{{Legacy, 1}, {NFT, 2}} {
		t.Run(string(tt.variant), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCommands()
				now, most := 0, 0
				c.before = func(cmd Command) (Result, bool) {
					if !strings.HasSuffix(cmd.Name, "-restore") {
						return Result{}, false
					}
					c.mu.Lock()
					now++
					most = max(most, now)
					c.mu.Unlock()
					time.Sleep(time.Minute) //nolint:forbidigo // fake time
					c.mu.Lock()
					now--
					c.mu.Unlock()
					return Result{}, false
				}
				mustReset(t, newFake(t, c, Config{Variant: tt.variant}), servicePort("web", "10.96.0.1", "10.244.0.5:8080"))
				if most != tt.want {
					t.Errorf("%d run at a time, want %d", most, tt.want)
				}
			})
		})
	}
}

// Addresses of the other family never reach iptables: one would make it refuse all.
func TestForeignAddressesAreLeftOut(t *testing.T) {
	c := newCommands()
	var problems []string
	be := newFake(t, c, Config{Problem: func(p Problem) { problems = append(problems, p.Field) }})
	spread := with(servicePort("spread", "10.96.0.32", "10.244.1.6:8080"), func(p *proxier.ServicePort) { p.Balance.LocalWeight = 3 })
	mixed := with(servicePort("mixed", "10.96.0.30", "10.244.1.7:8080"), func(p *proxier.ServicePort) {
		p.Frontends = append(p.Frontends, vip(proxier.ExternalIP, "2001:db8::30"), vip(proxier.LoadBalancer, "192.0.2.31"))
		p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:1::/48")}
		p.Cluster = append(p.Cluster, endpointsAt("[fd00::7]:8080")...)
	})
	mustReset(t, be, mixed, spread, servicePort("plain", "10.96.0.31", "10.244.1.8:8080"))
	mustApply(t, be, update(servicePort("plain", "10.96.0.31", "10.244.1.9:8080")))
	if diff := cmp.Diff([]string{"Frontends", "Cluster", "SourceRanges", "Balance"}, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	saved := strings.Join(c.rulesOf("iptables-nft"), "\n")
	for _, want := range []string{"-d 192.0.2.31/32", "-s 198.51.100.0/24", "--to-destination 10.244.1.6:8080", "--to-destination 10.244.1.9:8080"} {
		if !strings.Contains(saved, want) {
			t.Errorf("no rule has %q", want)
		}
	}
}

// Source ranges of which none can be programmed admit nobody, not everybody.
func TestInvalidSourceRangesClose(t *testing.T) {
	for name, bad := range map[string]netip.Prefix{
		"of the other family": netip.MustParsePrefix("2001:db8:1::/48"),
		"invalid":             netip.PrefixFrom(netip.MustParseAddr("198.51.100.0"), 99),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommands()
			var problems []string
			be := newFake(t, c, ipv4(Config{Problem: func(p Problem) { problems = append(problems, p.Field) }}))
			mustReset(t, be, with(servicePort("a", "10.96.0.1", "10.244.0.1:80"), func(p *proxier.ServicePort) {
				p.Frontends = append(p.Frontends, vip(proxier.LoadBalancer, "192.0.2.31"), vip(proxier.ExternalIP, "192.0.2.32"))
				p.SourceRanges = []netip.Prefix{bad}
			}))
			saved := strings.Join(c.rulesOf("iptables-nft"), "\n")
			if strings.Contains(saved, "192.0.2.31") {
				t.Errorf("the load balancer address is served:\n%s", saved)
			}
			if !strings.Contains(saved, "-d 192.0.2.32/32") || !strings.Contains(saved, "-d 10.96.0.1/32") {
				t.Errorf("the other addresses are not served:\n%s", saved)
			}
			if diff := cmp.Diff([]string{"SourceRanges", "SourceRanges"}, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeProgrammedIsReported(t *testing.T) {
	tests := []struct {
		name   string
		change func(*proxier.ServicePort)
		want   string
	}{
		{"family", func(p *proxier.ServicePort) { p.Key.Family = proxier.IPv6 }, "Key.Family"},
		{"protocol", func(p *proxier.ServicePort) { p.Key.Protocol = 50 }, "Key.Protocol"},
		{"a name that breaks out of its comment", func(p *proxier.ServicePort) { p.Key.Name = "a\" -j ACCEPT\n" }, "Key.PortName"},
		{"no name", func(p *proxier.ServicePort) { p.Key.Namespace = "" }, "Key.PortName"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCommands()
			var problems []Problem
			be := newFake(t, c, ipv4(Config{Problem: func(p Problem) { problems = append(problems, p) }}))
			bad := with(servicePort("bad", "10.96.0.1", "10.244.0.1:80"), tt.change)
			mustReset(t, be, servicePort("good", "10.96.0.2", "10.244.0.2:80"))
			mustApply(t, be, update(bad))
			if len(problems) != 1 || problems[0].Field != tt.want || problems[0].Key != bad.Key {
				t.Errorf("problems = %v, want one of %s", problems, tt.want)
			}
			if got := strings.Join(c.rulesOf("iptables-nft"), "\n"); strings.Contains(got, "10.96.0.1") {
				t.Errorf("it is programmed:\n%s", got)
			}
		})
	}
}
