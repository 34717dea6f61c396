package cni

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeaks(t *testing.T) {
	dir := t.TempDir()
	n := mustParse(t, `{"cniVersion":"1.0.0","name":"pods","plugins":[
		{"type":"flannel","delegate":{"ipam":{"type":"host-local","dataDir":"`+dir+`"}}},{"type":"portmap"}] }`)
	if leaks, err := n.Leaks(nil); err != nil || len(leaks) > 0 {
		t.Errorf("before the first ADD: %v, %v", leaks, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pods"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"10.88.0.2": "c1\r\neth0", "10.88.0.3": "c2\r\neth0", "fd00:88::3": "c2\r\neth0", "10.88.0.4": "old", "10.88.0.5": "gone",
		"lock": "", "last_reserved_ip.0": "10.88.0.5",
	} {
		write(t, filepath.Join(dir, "pods", name), content)
	}
	got, err := n.Leaks([]Key{{"c1", "eth0"}, {"old", "eth0"}, {"c2", "net1"}})
	want := []Leak{
		{netip.MustParseAddr("10.88.0.3"), Key{"c2", "eth0"}},
		{netip.MustParseAddr("10.88.0.5"), Key{"gone", ""}},
		{netip.MustParseAddr("fd00:88::3"), Key{"c2", "eth0"}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
		t.Errorf("error %v, leaks (-want +got):\n%s", err, diff)
	}
	if leaks, err := mustParse(t, conf("x")).Leaks(nil); err != nil || len(leaks) > 0 {
		t.Errorf("without host-local: %v, %v", leaks, err)
	}
}
