package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// output runs the program on the node and returns what it prints.
func (h *host) output(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, h.args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = t.Output()
	var out []byte
	err := h.node.Do(func() (err error) {
		out, err = cmd.Output()
		return err
	})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

// page returns what the program serves on its metrics port.
func (h *host) page(t *testing.T, path string) string {
	t.Helper()
	conn, err := h.node.Dial("tcp", "127.0.0.1:10249", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path)
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// Whoever flushes all rules of the host is followed by a repair, at once.
func TestKernelFlushedRulesComeBack(t *testing.T) {
	h := newHost(t)
	const web = "10.96.0.10:80"
	h.settled.Store(true)
	h.write(t, "web.yaml", webService)
	if got := h.output(t, "plan"); !strings.Contains(got, "+ IPv4 services { 10.96.0.10 . tcp . 80 : goto cluster-lb-1 }") {
		t.Errorf("before the start plan prints %s", got)
	}
	h.start(t, h.args...)
	h.await(t, web)
	for _, command := range [][]string{{"flush", "ruleset"}, {"delete", "table", "ip", "nodekit-proxy"}} {
		if _, err := h.node.Run("nft", command...); err != nil {
			t.Fatal(err)
		}
		h.await(t, web)
	}
	if got := h.output(t, "plan"); !strings.HasPrefix(got, "0 changes for 1 ports") {
		t.Errorf("while it runs plan prints %s", got)
	}
	if got := h.output(t, "explain", web); !strings.HasPrefix(got, "ClusterIP 10.96.0.10:80 of Service default/web") {
		t.Errorf("explain prints %s", got)
	}
	for path, want := range map[string]string{
		"/proxyMode": "nftables", "/healthz": "ok", "/configz": `"mode":"nftables"`,
		"/metrics": `kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}`,
	} {
		if got := h.page(t, path); !strings.Contains(got, want) || !strings.Contains(got, http.StatusText(http.StatusOK)) {
			t.Errorf("%s lacks %s:\n%s", path, want, got)
		}
	}
}
