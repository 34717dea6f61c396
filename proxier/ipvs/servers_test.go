package ipvs

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// holdToTable holds an IPVS, in memory or in a kernel, to what the Backend counts on.
func holdToTable(t *testing.T, v virtualServers) {
	t.Helper()
	ctx := t.Context()
	tcp, udp6 := keyOf(proxier.TCP, "10.96.0.1:80"), keyOf(proxier.UDP, "[fd00::1]:53")
	mark := serverKey{family: proxier.IPv4, mark: 0x4e4b0001}
	one, two := target{netip.MustParseAddrPort("10.244.0.1:8080"), 1}, target{netip.MustParseAddrPort("10.244.0.2:8080"), 5}
	six := target{netip.MustParseAddrPort("[fd00:244::1]:53"), 2}
	heavier := target{one.at, 9}
	rr := settings{scheduler: "rr"}
	sticky := settings{scheduler: "lc", flags: flagPersistent, timeout: 300}
	for _, step := range []struct {
		op   op
		want error
	}{
		{op{kind: addTarget, server: tcp, target: one}, unix.ESRCH},
		{op{kind: deleteServer, server: tcp}, unix.ESRCH},
		{op{kind: setServer, server: tcp, settings: rr}, unix.ESRCH},
		{op{kind: addServer, server: tcp, settings: settings{scheduler: "absent"}}, unix.ENOENT},
		{op{kind: addServer, server: tcp, settings: rr}, nil},
		{op{kind: addServer, server: tcp, settings: rr}, unix.EEXIST},
		{op{kind: setTarget, server: tcp, target: one}, unix.ENOENT},
		{op{kind: deleteTarget, server: tcp, target: one}, unix.ENOENT},
		{op{kind: addTarget, server: tcp, target: one}, nil},
		{op{kind: addTarget, server: tcp, target: one}, unix.EEXIST},
		{op{kind: addTarget, server: tcp, target: two}, nil},
		{op{kind: setTarget, server: tcp, target: heavier}, nil},
		{op{kind: setServer, server: tcp, settings: sticky}, nil},
		{op{kind: addServer, server: udp6, settings: settings{scheduler: "mh", flags: flagFallback | flagHashPort}}, nil},
		{op{kind: addTarget, server: udp6, target: six}, nil},
		{op{kind: addServer, server: mark, settings: rr}, nil},
		{op{kind: addTarget, server: mark, target: target{two.at, 0}}, nil},
	} {
		answers, err := v.do(ctx, []op{step.op})
		if err != nil {
			t.Fatal(err)
		}
		if got := answers[0]; (got == nil) != (step.want == nil) || got != nil && !errors.Is(got, step.want) {
			t.Errorf("%s: %v, want %v", step.op, got, step.want)
		}
	}
	wantListed(t, v, []string{
		"TCP 10.96.0.1:80 lc persistent 300 10.244.0.1:8080=9 10.244.0.2:8080=5",
		"UDP [fd00::1]:53 mh [fd00:244::1]:53=2",
		"mark 0x4e4b0001 IPv4 rr 10.244.0.2:8080=0",
	})
	// Many at once, with a failure among them that keeps no other.
	var ops []op
	for i := range 300 {
		ops = append(ops, op{kind: addTarget, server: mark, target: target{netip.AddrPortFrom(one.at.Addr(), uint16(1000+i)), 1}})
	}
	ops[150] = op{kind: deleteTarget, server: mark, target: heavier}
	answers, err := v.do(ctx, ops)
	if err != nil || len(answers) != len(ops) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i, err := range answers {
		if (err != nil) != (i == 150) {
			t.Errorf("%s: %v", ops[i], err)
		}
	}
	if found, err := v.targets(ctx, mark); err != nil || len(found) != 300 {
		t.Errorf("%d real servers, %v, want 300", len(found), err)
	}
	if answers, err := v.do(ctx, []op{{kind: deleteServer, server: mark}, {kind: deleteServer, server: udp6}, {kind: deleteServer, server: tcp}}); err != nil || errors.Join(answers...) != nil {
		t.Errorf("delete all: %v, %v", answers, err)
	}
	wantListed(t, v, []string{})
}

func wantListed(t *testing.T, v virtualServers, lines []string) {
	t.Helper()
	k := &fakeKernel{virtual: map[serverKey]*fakeServer{}}
	found, err := v.servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		f := &fakeServer{settings: s.settings, targets: map[netip.AddrPort]*foundTarget{}}
		targets, err := v.targets(t.Context(), s.key)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range targets {
			f.targets[target.at] = &target
			if !target.masquerades || target.connections != 0 {
				t.Errorf("%s of %s: %+v", target.at, s.key, target)
			}
		}
		k.virtual[s.key] = f
	}
	got := k.lines()
	slices.Sort(got)
	want(t, "virtual servers", got, lines)
}

func TestVirtualServersInMemory(t *testing.T) { holdToTable(t, newFakeKernel(t)) }

func TestInGuestVirtualServers(t *testing.T) {
	inGuest(t)
	ns := netnstest.New(t)
	c, err := dialIPVS(ns.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	holdToTable(t, c)
}

// Hosts without IPVS are told what to do.
func TestKernelWithoutIPVSIsSaid(t *testing.T) {
	if err := Check(""); err != nil && errors.Is(err, errNoIPVS) && !strings.Contains(err.Error(), "load the module ip_vs") {
		t.Errorf("Check = %v, want the module to load", err)
	}
}
