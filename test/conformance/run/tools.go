package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/testnode"
)

const kubernetesTools = "test/tools/kubernetes"

// tool returns the path of one of Kubernetes' programs, built when it is missing.
func tool(ctx context.Context, name string) (string, error) {
	return testnode.ToolOf(ctx, name, kubernetesTools)
}

// listSpecs asks the set's suite for the names of all its specs.
func listSpecs(ctx context.Context, set conformance.Set) ([]string, error) {
	suite, err := tool(ctx, string(set.Suite))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, suite, "--list-tests")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the specs of %s: %w: %s", set.Suite, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return conformance.ParseList(bytes.NewReader(out))
}

// versions names what runs, save the container runtime, which tells its own.
func versions(ctx context.Context, cfg Config) ([]string, error) {
	suite, err := tool(ctx, string(cfg.Set.Suite))
	if err != nil {
		return nil, err
	}
	_, release, _ := strings.Cut(filepath.Base(suite), "@")
	kernel, err := kernelRelease()
	if err != nil {
		return nil, err
	}
	all := []string{"kubernetes " + release, "kernel " + kernel}
	if cfg.Kit.Stock(cfg.Set) {
		return all, nil
	}
	ours, err := workingTree(ctx)
	if err != nil {
		return nil, err
	}
	return append(all, "nodekit "+ours), nil
}

func kernelRelease() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("ask for the kernel's release: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// workingTree names the commit, and what differs from it, so that results of one state
// of the code are not taken for those of another.
func workingTree(ctx context.Context) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("ask git for the commit: %w", err)
	}
	name := string(bytes.TrimSpace(commit))
	diff, err := exec.CommandContext(ctx, "git", "diff", "HEAD", "--", "*.go").Output()
	if err != nil {
		return "", fmt.Errorf("ask git for changes: %w", err)
	}
	if len(diff) > 0 {
		sum := sha256.Sum256(diff)
		name += "+" + hex.EncodeToString(sum[:4])
	}
	return name, nil
}
