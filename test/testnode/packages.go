package testnode

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// requirement is a program a node needs and the Debian package that has it.
type requirement struct{ program, debian string }

// requirements lists what a node needs. iptables is called by the CNI plugin
// portmap; nft is for the people who look at a node.
func requirements() []requirement {
	return []requirement{
		{"containerd", "containerd"},
		{"containerd-shim-runc-v2", "containerd"},
		{"ctr", "containerd"},
		{"runc", "runc"},
		{"ip", "iproute2"},
		{"nsenter", "util-linux"},
		{"unshare", "util-linux"},
		{"iptables", "iptables"},
		{"nft", "nftables"},
	}
}

// Missing returns the Debian packages that a node needs and that are not there.
// It is empty when a node can be started.
func Missing() []string {
	var packages []string
	for _, need := range requirements() {
		if findProgram(need.program) == "" && !slices.Contains(packages, need.debian) {
			packages = append(packages, need.debian)
		}
	}
	if _, err := findCNIPlugins(); err != nil {
		packages = append(packages, "containernetworking-plugins")
	}
	return packages
}

// findProgram looks in PATH and in the folders for administrators, which a
// user's PATH often lacks.
func findProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// Install installs the packages that [Missing] names, by hack/install.sh of this
// repository, which prints to out what it does. It does nothing when nothing is
// missing. The working directory must be inside the repository.
func Install(ctx context.Context, out io.Writer) error {
	if err := InstallPackages(ctx, out, Missing()...); err != nil {
		return err
	}
	if packages := Missing(); len(packages) > 0 {
		return fmt.Errorf("install %s: the packages are installed, but their programs are not found", strings.Join(packages, " "))
	}
	return nil
}

// InstallPackages installs Debian packages, as [Install] does.
func InstallPackages(ctx context.Context, out io.Writer, packages ...string) error {
	if len(packages) == 0 {
		return nil
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack", "install.sh"), packages...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(packages, " "), err)
	}
	return nil
}
