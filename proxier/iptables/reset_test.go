package iptables

import (
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestLocalhostNodePortsAreGuardedFirst(t *testing.T) {
	c := newCommands()
	host := &node{on: map[string]bool{}}
	cfg := ipv4(Config{LocalhostNodePorts: true, Exec: c})
	be, err := newWith(cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	c.before = func(cmd Command) (Result, bool) {
		if strings.HasSuffix(cmd.Name, "-restore") && host.on[routeLocalnetParameter] {
			t.Error("route_localnet is set before the guard is there")
		}
		return Result{}, false
	}
	// The kubelet's chain, with a rule of its own.
	filter := c.of("iptables-nft", "filter")
	filter.do(false, ":KUBE-FIREWALL - [0:0]")
	filter.do(false, "-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP")
	mustReset(t, be, servicePort("a", "10.96.0.1", "10.244.0.1:80"))
	if !host.on[routeLocalnetParameter] {
		t.Error("route_localnet is not set")
	}
	saved := strings.Join(c.rulesOf("iptables-nft"), "\n")
	for _, want := range []string{
		"-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\n",
		"-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \"block incoming localnet connections\" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n",
	} {
		if !strings.Contains(saved, want) {
			t.Errorf("no rule %q", want)
		}
	}
}

func TestCleanupRemovesWhatResetMakes(t *testing.T) {
	c := newCommands()
	// Rules of others, one of which uses a chain of ours.
	own := c.of("iptables-nft", "nat")
	for _, line := range []string{
		":CNI-DN - [0:0]", ":KUBE-MARK-MASQ - [0:0]", "-A PREROUTING -j CNI-DN", "-A CNI-DN -s 10.0.0.1/32 -j KUBE-MARK-MASQ",
	} {
		if wrong := own.do(false, line); wrong != "" {
			t.Fatal(wrong)
		}
	}
	be := newFake(t, c, Config{LocalhostNodePorts: true})
	mustReset(t, be, servicePort("a", "10.96.0.1", "10.244.0.1:80"), servicePort("b", "fd00:96::1"))
	for range 2 {
		if err := be.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"iptables-nft", "ip6tables-nft"} {
		for _, line := range c.rulesOf(name) {
			mine := strings.Contains(line, "KUBE-") && !strings.Contains(line, hostFirewallChain)
			foreign := strings.HasPrefix(line, "-A CNI-DN") || strings.HasPrefix(line, ":KUBE-MARK-MASQ ")
			if mine && !foreign {
				t.Errorf("%s has %q left", name, line)
			}
		}
	}
	if got := strings.Join(c.rulesOf("iptables-nft"), "\n"); !strings.Contains(got, "-A CNI-DN -s 10.0.0.1/32 -j KUBE-MARK-MASQ") {
		t.Errorf("the rule of others is gone:\n%s", got)
	}
}

func TestNodePortsAnswerWhereTheyShould(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want []string // what the rules that lead to node ports match
	}{
		{"everywhere", Config{}, []string{"! -d 127.0.0.0/8"}},
		{"everywhere and at localhost", Config{LocalhostNodePorts: true}, []string{"--dst-type LOCAL"}},
		{"primary", Config{NodePortPrimary: true}, []string{"-d 192.0.2.1/32"}},
		{"prefixes", Config{NodePortAddresses: prefixes("192.0.2.0/24", "127.0.0.0/8")}, []string{"-d 192.0.2.1/32", "-d 192.0.2.2/32"}},
		{
			"prefixes and localhost",
			Config{NodePortAddresses: prefixes("192.0.2.2/31", "127.0.0.0/8"), LocalhostNodePorts: true},
			[]string{"-d 127.0.0.1/32", "-d 192.0.2.2/32"},
		},
		{"prefixes of the other family", Config{NodePortAddresses: prefixes("2001:db8::/32")}, []string{"! -d 127.0.0.0/8"}},
		{"all", Config{NodePortAddresses: prefixes("192.0.2.0/24", "0.0.0.0/0")}, []string{"! -d 127.0.0.0/8"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCommands()
			cfg := ipv4(tt.cfg)
			cfg.Exec = c
			be, err := newWith(cfg, &node{on: map[string]bool{}, addresses: addrs("127.0.0.1", "192.0.2.1", "192.0.2.2", "198.51.100.1", "::1")})
			if err != nil {
				t.Fatal(err)
			}
			state := &proxier.State{Network: proxier.Network{NodeAddrs: addrs("192.0.2.1", "2001:db8::1")}}
			if err := be.Reset(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, line := range c.rulesOf("iptables-nft") {
				if strings.HasPrefix(line, "-A KUBE-SERVICES") {
					got = append(got, line)
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("rules %q, want %d", got, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("rule %q, want %q in it", got[i], want)
				}
			}
		})
	}
}

func TestCleanOthersLeavesWhatIsInForce(t *testing.T) {
	c := newCommands()
	ipvs := c.of("iptables-nft", "nat")
	for _, line := range []string{":KUBE-NODE-PORT - [0:0]", ":KUBE-SERVICES - [0:0]", "-A KUBE-SERVICES -j KUBE-NODE-PORT", "-A OUTPUT -j KUBE-NODE-PORT"} {
		if wrong := ipvs.do(false, line); wrong != "" {
			t.Fatal(wrong)
		}
	}
	a := servicePort("a", "10.96.0.1", "10.244.0.1:80")
	other := newFake(t, c, Config{Variant: Legacy})
	mustReset(t, other, a)
	be := newFake(t, c, Config{Variant: NFT})
	mustReset(t, be, a)
	if err := be.CleanOthers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := strings.Join(c.rulesOf("iptables-legacy"), "\n"); strings.Contains(left, "KUBE-SVC") {
		t.Errorf("of the other variant is left:\n%s", left)
	}
	if left := strings.Join(c.rulesOf("iptables-nft"), "\n"); strings.Contains(left, "KUBE-NODE-PORT\n") || !strings.Contains(left, "KUBE-SVC") {
		t.Errorf("rules:\n%s", left)
	}
	if plan, err := be.Plan(t.Context(), &proxier.State{Ports: []*proxier.ServicePort{a}}); err != nil || len(plan) > 0 {
		t.Errorf("a Reset would change %q, %v", plan, err)
	}
}
