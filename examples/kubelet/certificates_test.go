package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
)

// clusterFile is a kubeconfig with a token, as a bootstrap has it.
const clusterFile = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: u, user: {token: abcdef.0123456789abcdef}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// What the flags and the configuration make of the node's identity, and what is written
// for it: nothing by a preview.
func TestIdentityOfTheFlags(t *testing.T) {
	tests := []struct {
		name   string
		flags  string
		rotate bool
		want   string
		// written are files that are there afterwards, in the directory of the test.
		written []string
		renews  bool
	}{
		{"no cluster", "", true, "", []string{"bootstrap"}, false},
		{"a kubeconfig that is missing", "--kubeconfig=DIR/kubelet.conf", false, "no such file", []string{"bootstrap"}, false},
		{"a bootstrap without a kubeconfig", "--bootstrap-kubeconfig=DIR/bootstrap", false, "needs --kubeconfig", []string{"bootstrap"}, false},
		{"a kubeconfig", "--kubeconfig=DIR/bootstrap", false, "", []string{"bootstrap"}, false},
		{"a kubeconfig, to be renewed", "--kubeconfig=DIR/bootstrap --cert-dir=DIR/certs", true, "", []string{"bootstrap", "certs"}, true},
		{"a bootstrap", "--kubeconfig=DIR/kubelet.conf --bootstrap-kubeconfig=DIR/bootstrap", false, "", []string{"bootstrap", "kubelet.conf", "root", "root/pki"}, true},
		{"a bootstrap, to be renewed", "--kubeconfig=DIR/kubelet.conf --bootstrap-kubeconfig=DIR/bootstrap", true, "", []string{"bootstrap", "kubelet.conf", "root", "root/pki"}, true},
		{"a preview", "--kubeconfig=DIR/bootstrap --bootstrap-kubeconfig=DIR/bootstrap --dry-run=pod.yaml", true, "", []string{"bootstrap"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "bootstrap"), []byte(clusterFile), 0o600); err != nil {
				t.Fatal(err)
			}
			flags := "--config=x --hostname-override=node-a --root-dir=DIR/root " + tt.flags
			o, err := parse(strings.Fields(strings.ReplaceAll(flags, "DIR", dir)), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			k := &kubeletconfig.KubeletConfiguration{RotateCertificates: tt.rotate}
			config.SetDefaults(k)
			cfg, err := o.node(k, slog.New(slog.DiscardHandler))
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || tt.want == "" && err != nil {
				t.Fatalf("the error is %v, want %q", err, tt.want)
			}
			if renews := cfg.Beside != nil && len(cfg.Collectors) > 0; renews != tt.renews {
				t.Errorf("the certificate is looked after: %t, want %t", renews, tt.renews)
			}
			if diff := cmp.Diff(tt.written, tree(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// tree returns the names of all that is in a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); name != "." {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
