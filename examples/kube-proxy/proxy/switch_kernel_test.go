package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// iptablesMode is what kube-proxy's iptables mode has for a Service with one endpoint.
const iptablesMode = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SEP-A - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A
-A KUBE-SVC-A -j KUBE-SEP-A
-A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.244.0.5:8080
COMMIT
`

// TestKernelModeSwitchLosesNothing starts beside rules of iptables mode and of the
// stock nftables table: connections work before, after and in between, and the other
// rules are gone in the end.
func TestKernelModeSwitchLosesNothing(t *testing.T) {
	netnstest.NeedCommand(t, "nft")
	netnstest.NeedCommand(t, "iptables-restore")
	node, pod := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t,
		netnstest.End{NS: node, Name: "pod0", Addrs: []string{"10.244.0.1/24"}},
		netnstest.End{NS: pod, Name: "eth0", Addrs: []string{"10.244.0.5/24"}})
	node.IP(t, "route", "add", "default", "via", "10.244.0.5")
	greet(t, pod, "10.244.0.5:8080")
	for _, script := range []string{
		"iptables-restore --noflush <<'E'\n" + iptablesMode + "E\n",
		"nft add table ip kube-proxy",
	} {
		if _, err := node.Run("sh", "-c", script); err != nil {
			t.Fatal(err)
		}
	}
	stop := netnstest.Probes{From: node, Networks: []string{"tcp"}, Virtual: "10.96.0.10:80", Direct: "10.244.0.5:8080"}.Start(t)
	backend, err := nftables.New(nftables.Config{NetNS: node.Path()})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	state, err := desired(t.Context(), Config{NodeName: "node-a", SourceDir: manifest(t), PodsURL: kubelet(t, webPods)})
	if err != nil {
		t.Fatal(err)
	}
	if err := backend.Reset(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if err := node.Do(func() error { return removeLeftovers(t.Context(), node.Path(), nil) }); err != nil {
		t.Fatal(err)
	}
	await(t, node, "10.96.0.10:80", nil)
	stop()
	left, err := node.Run("sh", "-c", "iptables-save; nft list tables")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(left, "KUBE-") || strings.Contains(left, "table ip kube-proxy") {
		t.Errorf("left:\n%s", left)
	}
}

// manifest returns a folder with the Service.
func manifest(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(webService), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
