package nftables

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestConfig(t *testing.T) {
	prefix := netip.MustParsePrefix("10.0.0.0/8")
	for _, tt := range []struct {
		name string
		cfg  Config
		// want is part of the error; empty means that the Config is valid.
		want string
	}{
		{"zero", Config{}, ""},
		{"full", Config{
			Table: "t", Families: []proxier.Family{proxier.IPv6}, MasqueradeAll: true, MasqueradeBit: new(0),
			Local: Local{ClusterCIDRs: []netip.Prefix{prefix}}, NodePortAddresses: []netip.Prefix{prefix},
		}, ""},
		{"long table", Config{Table: strings.Repeat("x", 256)}, "Table"},
		{"bit below", Config{MasqueradeBit: new(-1)}, "MasqueradeBit"},
		{"bit above", Config{MasqueradeBit: new(32)}, "MasqueradeBit"},
		{"family twice", Config{Families: []proxier.Family{proxier.IPv4, proxier.IPv4}}, "IPv4 stands there twice"},
		{"family", Config{Families: []proxier.Family{5}}, "Families"},
		{"two detectors", Config{Local: Local{BridgeInterface: "b", InterfaceNamePrefix: "p"}}, "Local"},
		{"bridge name", Config{Local: Local{BridgeInterface: "sixteen-bytes-xx"}}, "Local.BridgeInterface"},
		{"prefix of names", Config{Local: Local{InterfaceNamePrefix: "sixteen-bytes-xx"}}, "Local.InterfaceNamePrefix"},
		{"cluster CIDR", Config{Local: Local{ClusterCIDRs: []netip.Prefix{{}}}}, "Local.ClusterCIDRs"},
		{"node port address", Config{NodePortAddresses: []netip.Prefix{{}}}, "NodePortAddresses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := New(tt.cfg)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("New: %v, want no error", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("New: %v, want an error about %s", err, tt.want)
			case (b == nil) != (err != nil):
				t.Errorf("New = %v, %v; want exactly one", b, err)
			}
		})
	}
}

func TestPodsAreDetectedPerFamily(t *testing.T) {
	for _, tt := range []struct {
		name   string
		local  Local
		v4, v6 bool
	}{
		{"nothing", Local{}, false, false},
		{"one CIDR", Local{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, true, false},
		{"bridge", Local{BridgeInterface: "br0"}, true, true},
		{"prefix", Local{InterfaceNamePrefix: "veth"}, true, true},
	} {
		if v4, v6 := tt.local.Detects(proxier.IPv4), tt.local.Detects(proxier.IPv6); v4 != tt.v4 || v6 != tt.v6 {
			t.Errorf("%s: detects IPv4 %t and IPv6 %t, want %t and %t", tt.name, v4, v6, tt.v4, tt.v6)
		}
	}
}

func TestNumberOfGeneration(t *testing.T) {
	for name, want := range map[string]int{
		"g1/lb-3": 1, "g12/services": 12, "g0/x": 0, "g-1/x": 0, "gx/x": 0, "nat-output": 0, "7/x": 0, "": 0, "g3": 0,
	} {
		got, ok := numberOf(name)
		if !ok {
			got = 0
		}
		if got != want {
			t.Errorf("numberOf(%q) = %d, want %d", name, got, want)
		}
	}
}

// setMessage builds a message of the kernel about one set.
func setMessage(tb testing.TB, attrs ...netlink.Attribute) netlink.Message {
	tb.Helper()
	data, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		tb.Fatal(err)
	}
	return netlink.Message{Data: append([]byte{byte(nft.TableFamilyIPv4), 0, 0, 0}, data...)}
}

func TestNamesPassOverWhatTheyDoNotKnow(t *testing.T) {
	text := func(s string) []byte { return append([]byte(s), 0) }
	table := netlink.Attribute{Type: unix.NFTA_SET_TABLE, Data: text("ours")}
	got, err := namesOf([]netlink.Message{
		setMessage(t, table, netlink.Attribute{Type: unix.NFTA_SET_NAME, Data: text("g1/services")}),
		setMessage(t, netlink.Attribute{Type: 0x1fff, Data: []byte{1, 2, 3}}, table,
			netlink.Attribute{Type: unix.NFTA_SET_NAME, Data: text("strange")}),
		setMessage(t, netlink.Attribute{Type: unix.NFTA_SET_TABLE, Data: text("theirs")},
			netlink.Attribute{Type: unix.NFTA_SET_NAME, Data: text("g9/services")}),
	}, "ours", dumpSets())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"g1/services", "strange"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestNamesOfAnInterruptedDumpAreNotTrusted(t *testing.T) {
	whole := setMessage(t, netlink.Attribute{Type: unix.NFTA_SET_TABLE, Data: []byte("ours\x00")},
		netlink.Attribute{Type: unix.NFTA_SET_NAME, Data: []byte("g1/services\x00")})
	cut := whole
	cut.Header.Flags |= netlink.DumpInterrupted
	if names, err := namesOf([]netlink.Message{whole, cut}, "ours", dumpSets()); !errors.Is(err, errInterrupted) {
		t.Errorf("namesOf = %q, %v, want %v", names, err, errInterrupted)
	}
}

func FuzzNames(f *testing.F) {
	good := setMessage(f, netlink.Attribute{Type: unix.NFTA_SET_TABLE, Data: []byte("ours\x00")},
		netlink.Attribute{Type: unix.NFTA_SET_NAME, Data: []byte("g1/services\x00")})
	f.Add(good.Data)
	f.Add(good.Data[:7])
	f.Add([]byte{2, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		names, err := namesOf([]netlink.Message{{Data: data}}, "ours", dumpSets())
		if err != nil && names != nil {
			t.Errorf("namesOf = %q and %v", names, err)
		}
		for _, n := range names {
			if g, ok := numberOf(n); ok && g <= 0 {
				t.Errorf("numberOf(%q) = %d", n, g)
			}
		}
	})
}

// A map that is looked up in a chain of its own for each number of endpoints would be
// walked over by the kernel with each new number.
func TestChainsThatComeOnDemandLookUpNoServices(t *testing.T) {
	g := newGeneration(program{assembler: assembler{family: proxier.IPv4}, local: podNet()}, &nft.Table{Name: DefaultTable, Family: nft.TableFamilyIPv4}, 1)
	for _, kind := range []chainKind{balance, local, cluster, external} {
		for _, sp := range []space{byAddr, byNodePort} {
			for _, r := range g.chainRules(chain{kind: kind, space: sp, n: 3}) {
				for _, e := range r {
					if l, ok := e.(*expr.Lookup); ok {
						t.Errorf("%s looks %s up", chain{kind: kind, space: sp, n: 3}, l.SetName)
					}
				}
			}
		}
	}
}
