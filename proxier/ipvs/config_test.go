package ipvs

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestNewNamesTheFieldThatIsNotValid(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, ""},
		{Config{Table: strings.Repeat("x", 256)}, "Table"},
		{Config{Device: "much-too-long-a-name"}, "Device"},
		{Config{MasqueradeBit: new(32)}, "MasqueradeBit"},
		{Config{MasqueradeBit: new(17), Marks: 2}, "Marks"},
		{Config{MasqueradeBit: new(17), Marks: 3}, ""},
		{Config{Scheduler: "Round Robin"}, "Scheduler"},
		{Config{Scheduler: "a_very_long_name_x"}, "Scheduler"},
		{Config{Families: []proxier.Family{5}}, "Families"},
		{Config{Families: []proxier.Family{proxier.IPv4, proxier.IPv4}}, "Families"},
		{Config{ExcludeCIDRs: []netip.Prefix{{}}}, "ExcludeCIDRs"},
		{Config{NodePortAddresses: []netip.Prefix{{}}}, "NodePortAddresses"},
		{Config{CheckInterval: -1}, "CheckInterval"},
		{Config{Timeouts: Timeouts{TCP: -1}}, "Timeouts.TCP"},
		{Config{Timeouts: Timeouts{UDP: time.Millisecond}}, "Timeouts.UDP"},
		{Config{Local: Local{NodeCIDRs: true, BridgeInterface: "br0"}}, "Local"},
		{Config{Local: Local{BridgeInterface: "much-too-long-a-name"}}, "Local.BridgeInterface"},
		{Config{Local: Local{ClusterCIDRs: []netip.Prefix{{}}}}, "Local.ClusterCIDRs"},
	} {
		_, err := New(tt.cfg)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New = %v, want an error about %q", err, tt.want)
		}
	}
}

func TestOldKernelsAreRefused(t *testing.T) {
	for release, ok := range map[string]bool{
		"4.19.0-27-amd64": false, "5.10.0-32-cloud-amd64": false, "5.13.0": true, "6.1.0-57-amd64": true, "6.12.117+deb12": true, "odd": true,
	} {
		if err := checkRelease(release); (err == nil) != ok || !ok && !errors.Is(err, proxier.ErrNotSupported) {
			t.Errorf("checkRelease(%q) = %v, want it accepted: %v", release, err, ok)
		}
	}
}

func TestMarksAreKeptAndReturned(t *testing.T) {
	m := newMarks(0x4e4b)
	key := func(name string) proxier.Key { return proxier.Key{PortName: proxier.PortName{Name: name}} }
	m.wish(key("a"), 0x4e4b0002)
	m.wish(key("b"), 0x4e4b0002) // taken
	m.wish(key("b"), 0x12340001) // somebody else's
	for _, tt := range []struct {
		name string
		want uint32
	}{{"a", 0x4e4b0002}, {"b", 0x4e4b0001}, {"c", 0x4e4b0003}, {"b", 0x4e4b0001}} {
		if got, ok := m.get(key(tt.name)); !ok || got != tt.want {
			t.Errorf("get(%s) = %#x, %v, want %#x", tt.name, got, ok, tt.want)
		}
	}
	m.reserve(0x4e4b0004)
	m.reserve(0x4e4b0003) // of c
	m.reserve(m.probe())
	m.release(key("a"))
	if got, _ := m.get(key("d")); got != 0x4e4b0005 {
		t.Errorf("get after a release = %#x, want a mark without a virtual server", got)
	}
	m.free()
	if got, _ := m.get(key("e")); got != 0x4e4b0002 {
		t.Errorf("get after free = %#x, want the mark that was returned", got)
	}
	for mark := m.high; mark <= m.probe(); mark++ {
		m.taken[mark] = true
	}
	m.release(key("e"))
	if got, ok := m.get(key("f")); !ok || got != 0x4e4b0002 {
		t.Errorf("get where none else is left = %#x, %v, want the mark that was returned", got, ok)
	}
}
