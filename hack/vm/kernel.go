package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernelSource is where a kernel and its modules come from.
type kernelSource struct {
	version string
	// image is the kernel: a program, or a compressed image of an x86 machine.
	image string
	// modules is the folder with modules.dep; it may be missing.
	modules string
	kind    kind
}

// iptables is the variant that works without further ado: Debian's user-mode Linux
// lacks nf_tables for ip and ip6.
func (k kernelSource) iptables() string {
	if k.kind == uml {
		return "legacy"
	}
	return "nft"
}

func findKernel(ctx context.Context, e engine, cache string) (kernelSource, error) {
	if e.kind == uml {
		return findUML(ctx)
	}
	return fetchKernel(ctx, e.kernelPackage, filepath.Join(cache, "packages"))
}

func findUML(ctx context.Context) (kernelSource, error) {
	program, err := exec.LookPath("linux.uml")
	if err != nil {
		return kernelSource{}, fmt.Errorf("%w (Debian: apt-get install user-mode-linux)", err)
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return kernelSource{}, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	version := strings.TrimSpace(string(out))
	return kernelSource{version: version, image: program, modules: "/usr/lib/uml/modules/" + version, kind: uml}, nil
}

// fetchKernel unpacks a Debian kernel package in the cache; nothing is installed.
// What an earlier run has unpacked is used as it is.
func fetchKernel(ctx context.Context, name, packages string) (kernelSource, error) {
	dir := filepath.Join(packages, name)
	if k, err := unpackedKernel(dir); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(packages, 0o755); err != nil {
		return kernelSource{}, err
	}
	making, err := os.MkdirTemp(packages, ".making-")
	if err != nil {
		return kernelSource{}, err
	}
	defer func() { _ = os.RemoveAll(making) }()
	fmt.Fprintf(os.Stderr, "vm: fetching %s (once)\n", name)
	if err := download(ctx, name, making); err != nil {
		return kernelSource{}, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return kernelSource{}, err
	}
	if err := os.Rename(making, dir); err != nil {
		return kernelSource{}, err
	}
	return unpackedKernel(dir)
}

// download fetches a kernel package and unpacks it in dir. A package without a
// version in its name depends on the newest one that has.
func download(ctx context.Context, name, dir string) error {
	fetch := func() error {
		out, err := exec.CommandContext(ctx, "apt-cache", "depends", name).Output()
		if err != nil {
			return fmt.Errorf("apt-cache depends %s: %w", name, err)
		}
		exact := name
		for line := range strings.Lines(string(out)) {
			if dep, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(dep, "linux-image-") {
				exact = dep
			}
		}
		// As root apt would hand the download to a user who may not write here.
		return inFolder(ctx, dir, "apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", exact)
	}
	err := fetch()
	if err != nil {
		// Its lists may be out of date.
		if err = errors.Join(err, inFolder(ctx, dir, "apt-get", "-qq", "update")); fetch() != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("fetch %s: %d packages came, want 1: %w", name, len(debs), err)
	}
	if err := inFolder(ctx, dir, "dpkg", "-x", debs[0], "."); err != nil {
		return err
	}
	return os.Remove(debs[0])
}

func unpackedKernel(dir string) (kernelSource, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot/vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return kernelSource{}, fmt.Errorf("%s has %d kernels, want 1: %w", dir, len(images), err)
	}
	version := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	return kernelSource{
		version: version, image: images[0],
		modules: filepath.Join(dir, "lib/modules", version), kind: qemu,
	}, nil
}

func inFolder(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// extract writes the kernel as the engine takes it. qemu gets the plain ELF file,
// which it starts by its PVH note: no firmware, and no decompression, which takes
// an emulated processor seconds.
func (k kernelSource) extract(ctx context.Context, to string) error {
	if k.kind == uml {
		return copyFile(to, k.image)
	}
	image, err := os.ReadFile(k.image)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		magic   string
		command []string
	}{
		{"\x28\xb5\x2f\xfd", []string{"zstd", "-dcq"}},
		{"\x02\x21\x4c\x18", []string{"lz4", "-dcq"}},
		{"\xfd7zXZ\x00", []string{"xz", "-dcq"}},
		{"\x1f\x8b\x08", []string{"gzip", "-dcq"}},
	} {
		for rest := image; ; rest = rest[1:] {
			at := bytes.Index(rest, []byte(c.magic))
			if at < 0 {
				break
			}
			rest = rest[at:]
			cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
			cmd.Stdin = bytes.NewReader(rest)
			// What follows the compressed kernel makes the command fail.
			plain, err := cmd.Output()
			if errors.Is(err, exec.ErrNotFound) {
				return err
			}
			if bytes.HasPrefix(plain, []byte("\x7fELF")) {
				return os.WriteFile(to, plain, 0o644)
			}
		}
	}
	return fmt.Errorf("no kernel found in %s: it is compressed in an unknown way", k.image)
}

func sortedValues(m map[string]string) []string { return slices.Sorted(maps.Values(m)) }
