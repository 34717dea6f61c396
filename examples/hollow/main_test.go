package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// kubeconfig writes one for a server.
func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\n", url)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRefusesWrongFlags(t *testing.T) {
	tests := []struct {
		want string
		args []string
	}{
		{"--kubeconfig is missing", nil},
		{"--nodes is 0", []string{"--kubeconfig", "x", "--nodes", "0"}},
		{"--labels: label a=b c", []string{"--kubeconfig", "x", "--labels", "a=b c"}},
		{"--taints: taint \"a\"", []string{"--kubeconfig", "x", "--taints", "a"}},
		{"--cpu: ", []string{"--kubeconfig", "x", "--cpu", "many"}},
		{"read --kubeconfig", []string{"--kubeconfig", "/nonexistent"}},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			err := run(t.Context(), tt.args, &bytes.Buffer{}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestNodesAreRegisteredAndTheirLeasesKept(t *testing.T) {
	const count = 20
	server := leasetest.New()
	h := httptest.NewServer(server)
	defer h.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var out bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		args := []string{"--kubeconfig", kubeconfig(t, h.URL), "--nodes", fmt.Sprint(count), "--ramp", "0s", "--connections", "2", "--content-type", "application/json"}
		if err := run(ctx, args, &out, os.Stderr); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	owned := func() int {
		n := 0
		for i := range count {
			if server.Owned(lease.DefaultNamespace, fmt.Sprintf("hollow-%d", i)) {
				n++
			}
		}
		return n
	}
	for owned() < count && ctx.Err() == nil {
		<-tick.C
	}
	stop()
	wg.Wait()
	if n := owned(); n != count {
		t.Fatalf("%d Leases belong to their Nodes, want %d", n, count)
	}
	n := server.Node("hollow-7")
	ready := n.Status.Conditions[len(n.Status.Conditions)-1]
	if ready.Type != corev1.NodeReady || ready.Status != corev1.ConditionTrue || len(n.Spec.Taints) != 1 || n.Status.Capacity.Pods().Value() != 110 {
		t.Errorf("Node %+v", n)
	}
	if !strings.Contains(out.String(), "20/20") {
		t.Errorf("output:\n%s\nwant 20/20 in it", out.String())
	}
}
