package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// modulePatterns are the modules of a guest: folders below kernel/, or names. What
// they depend on comes along; what a kernel has built in or lacks is passed over.
var modulePatterns = []string{
	"net/netfilter/", "net/ipv4/", "net/ipv6/", "net/bridge/", "net/xfrm/", "net/sched/",
	"net/packet/", "net/unix/", "net/8021q/", "net/llc/", "net/sctp/", "net/netlink/",
	"dummy", "veth", "ifb", "tun", "vxlan", "macvlan", "ipvlan", "overlay", "fuse",
	"virtio_pci", "virtio_blk", "virtio_console", "libcrc32c", "crc32c_generic",
	// What sctp signs its cookies with.
	"hmac", "md5", "sha1_generic",
}

// wanted are the modules that a guest loads at its start: nobody who needs them asks
// the kernel for them. The library netlink opens a socket of every family, that of
// xfrm_user too.
var wanted = map[kind][]string{
	uml:  {"ipv6", "xfrm_user"},
	qemu: {"ipv6", "xfrm_user", "virtio_pci", "virtio_blk", "virtio_console"},
}

// dependencies are the lines of modules.dep: file to files that it needs.
type dependencies map[string][]string

func parseDependencies(r io.Reader) (dependencies, error) {
	deps := dependencies{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, needs, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			return nil, fmt.Errorf("modules.dep: line %q has no colon", lines.Text())
		}
		deps[file] = strings.Fields(needs)
	}
	return deps, lines.Err()
}

// pick returns the files that match one of the patterns, and what they need.
func (d dependencies) pick(patterns []string) map[string]bool {
	picked := map[string]bool{}
	var add func(file string)
	add = func(file string) {
		if picked[file] {
			return
		}
		picked[file] = true
		for _, need := range d[file] {
			add(need)
		}
	}
	for file := range d {
		name, _, _ := strings.Cut(path.Base(file), ".ko")
		name = strings.ReplaceAll(name, "-", "_")
		for _, p := range patterns {
			if name == p || strings.HasSuffix(p, "/") && strings.HasPrefix(file, "kernel/"+p) {
				add(file)
			}
		}
	}
	return picked
}

// copyModules copies the modules of a guest to dir/lib/modules/VERSION, uncompressed,
// with the tables of modprobe.
func (k kernelSource) copyModules(ctx context.Context, dir string) error {
	to := filepath.Join(dir, "lib/modules", k.version)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := k.index(ctx); err != nil {
		return err
	}
	table, err := os.Open(filepath.Join(k.modules, "modules.dep"))
	if err != nil {
		return err
	}
	defer table.Close()
	deps, err := parseDependencies(table)
	if err != nil {
		return err
	}
	var compressed []string
	for file := range deps.pick(modulePatterns) {
		target := filepath.Join(to, file)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := copyFile(target, filepath.Join(k.modules, file)); err != nil {
			return err
		}
		if strings.HasSuffix(file, ".xz") {
			compressed = append(compressed, target)
		}
	}
	if len(compressed) > 0 {
		if err := inFolder(ctx, to, "xz", append([]string{"-d"}, compressed...)...); err != nil {
			return err
		}
	}
	for _, name := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		err := copyFile(filepath.Join(to, name), filepath.Join(k.modules, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return inFolder(ctx, to, "depmod", "-b", dir, k.version)
}

// index makes modules.dep, which a package that was never installed lacks.
func (k kernelSource) index(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(k.modules, "modules.dep")); err == nil {
		return nil
	}
	root, ok := strings.CutSuffix(k.modules, "/lib/modules/"+k.version)
	if !ok {
		return fmt.Errorf("no modules.dep in %s", k.modules)
	}
	if out, err := exec.CommandContext(ctx, "depmod", "-b", root, k.version).CombinedOutput(); err != nil {
		return fmt.Errorf("depmod: %w: %s", err, out)
	}
	return nil
}
