package testnode

import (
	"bufio"
	"context"
	"errors"
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

// requirements lists what a node needs. conntrack and nft serve the people who
// look at a node; iptables is called by the CNI plugin portmap.
func requirements() []requirement {
	return []requirement{
		{"containerd", "containerd"},
		{"containerd-shim-runc-v2", "containerd"},
		{"ctr", "containerd"},
		{"runc", "runc"},
		{"ip", "iproute2"},
		{"nsenter", "util-linux"},
		{"iptables", "iptables"},
		{"nft", "nftables"},
		{"conntrack", "conntrack"},
	}
}

// cniFolders are where distributions put the CNI plugins: Debian, and the place
// that the CNI documentation names.
func cniFolders() []string { return []string{"/usr/lib/cni", "/opt/cni/bin"} }

// cniPlugins returns the folder that holds the CNI plugins a node uses.
func cniPlugins() (string, error) {
	for _, dir := range cniFolders() {
		complete := true
		for _, plugin := range []string{"ptp", "host-local", "portmap", "loopback"} {
			if _, err := os.Stat(filepath.Join(dir, plugin)); err != nil {
				complete = false
			}
		}
		if complete {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find CNI plugins ptp, host-local, portmap and loopback: not in %s",
		strings.Join(cniFolders(), " or "))
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
	if _, err := cniPlugins(); err != nil {
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

// Install installs the packages that [Missing] names with apt-get, which may
// start a containerd service of the system; nodes do not use it. progress gets
// one line per step. It does nothing when nothing is missing.
func Install(ctx context.Context, progress func(string)) error {
	packages := Missing()
	if len(packages) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("install %s: this needs root", strings.Join(packages, " "))
	}
	if findProgram("apt-get") == "" {
		return fmt.Errorf("install %s: there is no apt-get here; install them yourself", strings.Join(packages, " "))
	}
	progress("apt-get install " + strings.Join(packages, " "))
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if err := aptGet(ctx, progress, install...); err != nil {
		progress("apt-get update, and once more")
		if updated := aptGet(ctx, progress, "update"); updated != nil {
			return errors.Join(err, updated)
		}
		if err := aptGet(ctx, progress, install...); err != nil {
			return err
		}
	}
	if packages := Missing(); len(packages) > 0 {
		return fmt.Errorf("install %s: apt-get is content, but the programs are not there", strings.Join(packages, " "))
	}
	return nil
}

// aptGet runs apt-get, passes on which packages it downloads and sets up, and
// puts the last lines it printed into the error.
func aptGet(ctx context.Context, progress func(string), args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run apt-get: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		in.Close()
		ended <- err
	}()
	var last []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "Get:") || strings.HasPrefix(line, "Setting up ") {
			progress(line)
		}
		if last = append(last, line); len(last) > 5 {
			last = last[1:]
		}
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("apt-get %s: %w:\n%s", strings.Join(args, " "), err, strings.Join(last, "\n"))
	}
	return nil
}
