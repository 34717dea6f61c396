package iptables

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// notes keeps what Degraded was told last.
type notes struct {
	times int
	last  error
}

func (n *notes) take(err error) { n.times, n.last = n.times+1, err }

// A process that may not write kernel parameters programs Services all the same.
func TestReadOnlyParametersLeaveTheRulesInForce(t *testing.T) {
	c := newCommands()
	host := &node{on: map[string]bool{}, setErr: fs.ErrPermission}
	var told notes
	be, err := newWith(ipv4(Config{LocalhostNodePorts: true, Exec: c, Degraded: told.take}), host)
	if err != nil {
		t.Fatal(err)
	}
	mustReset(t, be, servicePort("a", "10.96.0.1", "10.244.0.1:80"))
	if told.times != 1 || !errors.Is(told.last, fs.ErrPermission) {
		t.Errorf("told %+v, want the error once", told)
	}
	mustApply(t, be, update(servicePort("b", "10.96.0.2", "10.244.0.2:80")))
	if got := strings.Join(c.rulesOf("iptables-nft"), "\n"); !strings.Contains(got, "10.244.0.2:80") {
		t.Errorf("a change is not in force:\n%s", got)
	}
	host.setErr = nil
	mustReset(t, be)
	if told.times != 2 || told.last != nil {
		t.Errorf("told %+v, want that it is over", told)
	}
}

func TestPrepareSetsTheParameterBehindItsGuard(t *testing.T) {
	const rule = "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 "
	tests := []struct {
		name string
		cfg  Config
		want bool
	}{
		{"everywhere", Config{LocalhostNodePorts: true}, true},
		{"localhost", Config{LocalhostNodePorts: true, NodePortAddresses: prefixes("192.0.2.0/24", "127.0.0.0/8")}, true},
		{"not asked for", Config{}, false},
		{"ruled out", Config{LocalhostNodePorts: true, NodePortAddresses: prefixes("192.0.2.0/24")}, false},
		{"primary", Config{LocalhostNodePorts: true, NodePortPrimary: true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCommands()
			host := &node{on: map[string]bool{}}
			cfg := ipv4(tt.cfg)
			cfg.Exec = c
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
			for range 2 {
				if err := be.Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.before = nil
			}
			saved := strings.Join(c.rulesOf("iptables-nft"), "\n")
			if host.on[routeLocalnetParameter] != tt.want || strings.Count(saved, rule) != map[bool]int{true: 1}[tt.want] {
				t.Errorf("route_localnet is set: %v, rules:\n%s", host.on[routeLocalnetParameter], saved)
			}
			if tt.want && strings.Count(saved, "-j KUBE-FIREWALL") != 2 {
				t.Errorf("nothing leads to the guard:\n%s", saved)
			}
			if strings.Contains(saved, "KUBE-SERVICES") {
				t.Errorf("more than that is made:\n%s", saved)
			}
			if !tt.want {
				return
			}
			// The process that comes later finds it, and needs no more.
			host.setErr = fs.ErrPermission
			var told notes
			cfg.Degraded = told.take
			if be, err = newWith(cfg, host); err != nil {
				t.Fatal(err)
			}
			mustReset(t, be)
			if guards := strings.Count(strings.Join(c.rulesOf("iptables-nft"), "\n"), rule); told.last != nil || guards != 1 {
				t.Errorf("told %v, %d guards", told.last, guards)
			}
		})
	}
}

// A family that the kernel or the host does not have keeps the other from nothing, and is
// programmed once it is there.
func TestAnUnusableFamilyDoesNotStopTheOther(t *testing.T) {
	for name, missing := range map[string][]string{"no command": {"ip6tables"}, "no table": nil} {
		t.Run(name, func(t *testing.T) {
			c := newCommands(missing...)
			if missing == nil {
				c.before = func(cmd Command) (Result, bool) {
					return Result{Status: 3, Stderr: []byte("can't initialize ip6tables table `nat': Table does not exist\n")},
						strings.HasPrefix(cmd.Name, "ip6tables")
				}
			}
			var told notes
			be := newFake(t, c, Config{Variant: NFT, Degraded: told.take})
			mustReset(t, be, servicePort("a", "10.96.0.1", "10.244.0.1:80"), servicePort("b", "fd00:96::1", "[fd00:244::1]:80"))
			if !errors.Is(told.last, proxier.ErrNotSupported) || !strings.Contains(told.last.Error(), "IPv6") {
				t.Errorf("told %v, want that IPv6 is not programmed", told.last)
			}
			mustApply(t, be, update(servicePort("a", "10.96.0.1", "10.244.0.2:80"), servicePort("b", "fd00:96::1", "[fd00:244::2]:80")))
			mustApply(t, be, remove(servicePort("b", "fd00:96::1")))
			if got := strings.Join(c.rulesOf("iptables-nft"), "\n"); !strings.Contains(got, "10.244.0.2:80") {
				t.Errorf("IPv4 is not programmed:\n%s", got)
			}
			c.missing, c.before = nil, nil
			mustReset(t, be, servicePort("b", "fd00:96::1", "[fd00:244::2]:80"))
			if got := strings.Join(c.rulesOf("ip6tables-nft"), "\n"); told.last != nil || !strings.Contains(got, "[fd00:244::2]:80") {
				t.Errorf("told %v, rules of IPv6:\n%s", told.last, got)
			}
		})
	}
}

// Where no family works, and where that cannot be told, nothing is in force.
func TestNoUsableFamilyIsAnError(t *testing.T) {
	for name, answer := range map[string]Result{
		"no privilege": {Status: 4, Stderr: []byte("Fatal: can't open lock file /run/xtables.lock: Permission denied\n")},
		"locked":       {Status: 4, Stderr: []byte("Another app is currently holding the xtables lock. Stopped waiting after 5s.\n")},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommands()
			c.before = func(cmd Command) (Result, bool) {
				return answer, len(cmd.Args) > 0 && cmd.Args[len(cmd.Args)-1] == "POSTROUTING"
			}
			be := newFake(t, c, Config{Variant: NFT, Degraded: func(err error) { t.Errorf("told %v", err) }})
			if err := be.Reset(t.Context(), &proxier.State{}); err == nil {
				t.Error("Reset = nil")
			}
			c.before = nil
			be.cfg.Degraded = func(err error) {
				if err != nil {
					t.Errorf("later, told %v", err)
				}
			}
			mustReset(t, be)
		})
	}
}
