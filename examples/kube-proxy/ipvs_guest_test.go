package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ipvsConfiguration is that of mode ipvs.
const ipvsConfiguration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
clusterCIDR: 10.244.0.0/24
healthzBindAddress: 127.0.0.1:10256
ipvs: {scheduler: lc, strictARP: true, udpTimeout: 77s}
`

// TestInQemuModeIPVS runs the program in mode ipvs, on a kernel that has it as few hosts do:
// from rules of another mode to nothing left.
func TestInQemuModeIPVS(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("NODEKIT_VM"), "qemu") {
		t.Skip("runs in a guest of hack/vm with qemu: make test-vm")
	}
	h := newHost(t)
	h.settled.Store(true)
	if err := os.WriteFile(h.args[1], []byte(ipvsConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(t, "nft add table ip kube-proxy && nft add table ip nodekit-proxy && ipvsadm -A -t 192.0.2.1:80 -s rr")
	h.write(t, "web.yaml", webService)
	h.write(t, "other.yaml", strings.NewReplacer("name: web", "name: other, annotations: {nodekit.io/scheduler: sh}",
		"10.96.0.10", "10.96.0.11").Replace(webService))
	const web = "10.96.0.10:80"
	cmd := h.start(t, h.args...)
	h.patiently(t, web)
	h.patiently(t, "10.96.0.11:80")
	out := h.run(t, "ipvsadm -S -n; ipvsadm -l --timeout; ip -o addr show kube-ipvs0; cat /proc/sys/net/ipv4/conf/all/arp_ignore")
	for _, want := range []string{"-A -t 10.96.0.10:80 -s lc", "-A -t 10.96.0.11:80 -s sh", "10.244.0.5:8080 -m -w 1", "udp): 900 120 77", "10.96.0.11/32", "\n1"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	h.eventually(t, "tables of other modes are gone", func() bool {
		return h.run(t, "nft list tables") == "table ip nodekit-ipvs\ntable ip6 nodekit-ipvs\n"
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ends with %v", err)
	}
	h.patiently(t, web)
	if err := h.start(t, "--cleanup", "--config", h.args[1]).Wait(); err != nil {
		t.Errorf("--cleanup: %v", err)
	}
	if out := h.run(t, "nft list tables; ipvsadm -S -n; ip -o link show type dummy"); strings.TrimSpace(out) != "-A -t 192.0.2.1:80 -s rr" {
		t.Errorf("after --cleanup there is\n%s", out)
	}
}

// run runs a script on the node.
func (h *host) run(t *testing.T, script string) string {
	t.Helper()
	out, err := h.node.Run("sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually waits for what a slow guest may take long for.
func (h *host) eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	const patience = 3 * time.Minute
	for deadline := time.Now().Add(patience); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

func (h *host) patiently(t *testing.T, addr string) {
	t.Helper()
	var err error
	h.eventually(t, "an answer of "+addr, func() bool {
		if err = h.get(addr); err != nil {
			err = fmt.Errorf("%s: %w", addr, err)
		}
		return err == nil
	})
}
