package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tools are the paths of the programs.
type tools struct{ nodekit, kubeProxy, apiserver, etcd string }

// findTools builds what is not there yet.
func findTools(ctx context.Context, root string) (tools, error) {
	var t tools
	var err error
	for name, to := range map[string]*string{"kube-proxy": &t.kubeProxy, "kube-apiserver": &t.apiserver} {
		if *to, err = output(ctx, filepath.Join(root, "hack/tool.sh"), name, "test/tools/kubernetes"); err != nil {
			return t, err
		}
	}
	if t.etcd, err = exec.LookPath("etcd"); err != nil {
		return t, fmt.Errorf("%w; apt-get install etcd-server", err)
	}
	t.nodekit = filepath.Join(root, "_out", "bench-kube-proxy")
	if t.nodekit, err = filepath.Abs(t.nodekit); err != nil {
		return t, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", t.nodekit, "./examples/kube-proxy")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return t, fmt.Errorf("build examples/kube-proxy: %w", err)
	}
	return t, nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
