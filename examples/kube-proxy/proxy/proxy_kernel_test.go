package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// TestKernelServiceReachesPod runs the whole wiring over a real kernel: a manifest
// and the kubelet's answer become a connection, also after the Proxy has ended.
func TestKernelServiceReachesPod(t *testing.T) {
	netnstest.NeedCommand(t, "nft")
	node, pod := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t,
		netnstest.End{NS: node, Name: "pod0", Addrs: []string{"10.244.0.1/24"}},
		netnstest.End{NS: pod, Name: "eth0", Addrs: []string{"10.244.0.5/24"}})
	node.IP(t, "route", "add", "default", "via", "10.244.0.5")
	greet(t, pod, "10.244.0.5:8080")

	dir := t.TempDir()
	write := func(content string) {
		t.Helper()
		tmp := filepath.Join(dir, ".tmp")
		if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "web.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	write(webService)
	backend, err := nftables.New(nftables.Config{NetNS: node.Path()})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	cfg := Config{NodeName: "node-a", SourceDir: dir, PodsURL: kubelet(t, webPods), Backend: backend, Health: withoutHealth}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()

	await(t, node, "10.96.0.10:80", nil)
	write(strings.Replace(webService, "app: web", "app: nobody", 1))
	await(t, node, "10.96.0.10:80", syscall.ECONNREFUSED)
	write(webService)
	await(t, node, "10.96.0.10:80", nil)

	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	if err := dial(node, "10.96.0.10:80"); err != nil {
		t.Errorf("after the end of Run: %v, want the Service to go on", err)
	}
	if err := Cleanup(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if out, err := node.Run("nft", "list", "tables"); err != nil || out != "" {
		t.Errorf("tables after Cleanup: %q, %v", out, err)
	}
}

// greet answers connections at an address of ns until the test ends.
func greet(t *testing.T, ns *netnstest.NS, addr string) {
	t.Helper()
	l, err := ns.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "hello")
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
}

func dial(ns *netnstest.NS, addr string) error {
	conn, err := ns.Dial("tcp", addr, 200*time.Millisecond)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	got, err := io.ReadAll(conn)
	if err == nil && string(got) != "hello" {
		err = fmt.Errorf("got %q", got)
	}
	return err
}

// await dials until the outcome is want, nil being an answer.
func await(t *testing.T, ns *netnstest.NS, addr string, want error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := dial(ns, addr)
		if want == nil && err == nil || want != nil && errors.Is(err, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a connection to %s: %v, want %v", addr, err, want)
		}
	}
}
