package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	nft "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
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
	if found, err := v.targets(ctx, mark); err != nil || len(found) > 0 {
		t.Errorf("real servers of none: %v, %v, want an empty list", found, err)
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

// refusing is a connection to a kernel that refuses messages of a kind, and knows nothing else.
func refusing(kind netlink.HeaderType, with unix.Errno) *netlink.Conn {
	return nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
		if requests[0].Header.Type == kind {
			return nltest.Error(int(with), requests)
		}
		return nltest.Error(int(unix.ENODEV), requests)
	})
}

// Hosts without a module are told what to do.
func TestKernelWithoutAModuleIsSaid(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"IPVS", (&connection{nl: refusing(genlController, unix.ENOENT)}).findFamily(), "load the module ip_vs"},
		{"dummy devices", (&device{nl: refusing(unix.RTM_NEWLINK, unix.EOPNOTSUPP), name: DefaultDevice}).ensure(t.Context()), "load the module dummy"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("without %s: %v, want %q", tt.name, tt.err, tt.want)
		}
	}
}

// A kernel without nf_tables has no tables. It answers a list, which it cannot give, in another way
// than a change.
func TestKernelWithoutTablesListsNone(t *testing.T) {
	for _, answer := range []unix.Errno{unix.EINVAL, unix.ENOENT, unix.EAFNOSUPPORT} {
		tables := tables{
			name: DefaultTable, families: []proxier.Family{proxier.IPv4}, conn: &nft.Conn{},
			nl: refusing(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETSETELEM, answer),
		}
		if got, err := tables.list(t.Context(), owned); err != nil || len(got) > 0 {
			t.Errorf("list with the answer %v = %v, %v, want nothing", answer, got, err)
		}
	}
	if err := fmt.Errorf("connect: %w", os.NewSyscallError("socket", unix.EPROTONOSUPPORT)); !isNotFound(err) {
		t.Errorf("%v: want nothing found", err)
	}
}

// Kube-proxy may have left something on a kernel that is too old for a Backend.
func TestOldKernelsAreCleanedUp(t *testing.T) {
	k := crowded(t, false)
	b := k.backend(Config{})
	b.usable = func() error { return checkRelease("5.4.0") }
	if err := b.Reset(t.Context(), stateOf()); !errors.Is(err, proxier.ErrNotSupported) || !strings.Contains(err.Error(), "too old") {
		t.Errorf("Reset = %v, want that the kernel is too old", err)
	}
	if k.dialed > 0 || len(k.ops) > 0 {
		t.Errorf("Reset does %v", k.ops)
	}
	if err := b.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "after Cleanup", k.lines(), []string{"TCP 203.0.113.1:80 rr", "mark 0x4d IPv4 wlc"})
}
