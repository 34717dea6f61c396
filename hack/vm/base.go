package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// base is what all guests of an engine have in common: a folder of the user's cache
// with a kernel and an initramfs of its modules and of some programs.
type base string

func (b base) kernel() string  { return filepath.Join(string(b), "kernel") }
func (b base) archive() string { return filepath.Join(string(b), "base.cpio") }
func (b base) shim() string    { return filepath.Join(string(b), "ptrace.so") }

// ptraceSource is the source of the shim that user-mode Linux needs on processors
// with AMX; it says why.
//
//go:embed uml/ptrace.c
var ptraceSource string

// tools are the host's programs that every guest has. The kernel calls modprobe to
// load what somebody uses.
var tools = []string{
	"kmod", "ip", "bridge", "tc", "nft", "ipset", "ipvsadm", "conntrack", "sysctl",
	"xtables-legacy-multi", "xtables-nft-multi", "busybox", "dash",
}

// prepare returns the base of an engine. It makes one when there is none, or when the
// host's kernel package or one of the tools is no longer the one in it.
func prepare(ctx context.Context, e engine) (base, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "nodekit", "vm")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	source, err := findKernel(ctx, e, cache)
	if err != nil {
		return "", err
	}
	programs, err := findTools(ctx)
	if err != nil {
		return "", err
	}
	key, err := fingerprint(source, programs)
	if err != nil {
		return "", err
	}
	b := base(filepath.Join(cache, fmt.Sprintf("%s-%s-%s", e.kind, source.version, key)))
	if _, err := os.Stat(string(b)); err == nil {
		return b, nil
	}
	return b, b.make(ctx, source, programs)
}

// lock takes a lock that other processes respect; who comes second finds what the
// first has made.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// findTools returns the paths of the tools and of all that they need.
func findTools(ctx context.Context) (map[string]string, error) {
	files := map[string]string{}
	var missing []string
	for _, tool := range tools {
		path, err := exec.LookPath(tool)
		if err != nil {
			missing = append(missing, tool)
			continue
		}
		files["/usr/sbin/"+tool] = path
		for _, lib := range libraries(ctx, path) {
			files[lib] = lib
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("not on this machine: %s (make test-vm installs what is missing)", strings.Join(missing, ", "))
	}
	// Extensions of iptables, which it loads by name.
	extensions, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil {
		return nil, err
	}
	for _, file := range append(extensions, "/etc/protocols", "/etc/services", "/etc/ethertypes") {
		if _, err := os.Stat(file); err == nil {
			files[file] = file
		}
	}
	return files, nil
}

// recipe changes whenever a base is made differently from the same files.
const recipe = "1"

// fingerprint identifies what a base is made of.
func fingerprint(k kernelSource, programs map[string]string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, recipe, k.version, modulePatterns, wanted, ptraceSource)
	for _, path := range append(sortedValues(programs), k.image) {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// make makes the base in a folder beside it, so that there is never half a base.
func (b base) make(ctx context.Context, source kernelSource, programs map[string]string) error {
	fmt.Fprintf(os.Stderr, "vm: making a guest of Linux %s (once)\n", source.version)
	// Those of other versions are of no use any more.
	if err := b.removeOlder(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(string(b)), ".making-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	unfinished := base(dir)
	if err := source.extract(ctx, unfinished.kernel()); err != nil {
		return err
	}
	if source.kind == uml {
		if err := unfinished.makeShim(ctx); err != nil {
			return err
		}
	}
	modules := filepath.Join(dir, "modules")
	if err := source.copyModules(ctx, modules); err != nil {
		return err
	}
	if err := unfinished.pack(source, modules, programs); err != nil {
		return err
	}
	if err := os.RemoveAll(modules); err != nil {
		return err
	}
	return os.Rename(dir, string(b))
}

// makeShim compiles the library that is preloaded into user-mode Linux.
func (b base) makeShim(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-x", "c", "-o", b.shim(), "-")
	cmd.Stdin = strings.NewReader(ptraceSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile ptrace.c: %w: %s", err, out)
	}
	return nil
}

func (b base) removeOlder() error {
	name := filepath.Base(string(b))
	same := name[:strings.LastIndex(name, "-")+1]
	older, err := filepath.Glob(filepath.Join(filepath.Dir(string(b)), same+"*"))
	if err != nil {
		return err
	}
	for _, dir := range older {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// pack writes the initramfs.
func (b base) pack(source kernelSource, modules string, programs map[string]string) error {
	f, err := os.Create(b.archive())
	if err != nil {
		return err
	}
	defer f.Close()
	a := newArchive(f)
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/root", outFolder, workFolder, "/var/lib"} {
		a.folder(dir)
	}
	a.link("/var/run", "/run")
	a.tree("/lib/modules/"+source.version, filepath.Join(modules, "lib/modules", source.version))
	for guest, host := range programs {
		a.file(guest, host)
	}
	packLinks(a, source)
	a.bytes("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"))
	a.bytes("/etc/group", []byte("root:x:0:\nnogroup:x:65534:\n"))
	a.bytes("/etc/hosts", []byte("127.0.0.1 localhost\n::1 localhost\n"))
	a.bytes("/etc/resolv.conf", nil)
	return errors.Join(a.close(), f.Close())
}

// packLinks gives the tools the names they are called by. sh is dash: busybox's
// shell would run its own applets, ip among them, whatever PATH says.
func packLinks(a *archive, source kernelSource) {
	a.link("/bin/sh", "/usr/sbin/dash")
	a.link("/sbin/ip", "/usr/sbin/ip")
	for _, name := range []string{"modprobe", "insmod", "rmmod", "lsmod", "modinfo"} {
		a.link("/sbin/"+name, "/usr/sbin/kmod")
	}
	for _, name := range []string{"cat", "ls", "mount", "umount", "sleep", "true", "false", "ps", "grep", "dmesg", "mkdir", "rm", "nsenter", "unshare"} {
		a.link("/bin/"+name, "/usr/sbin/busybox")
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			for _, variant := range []string{"legacy", "nft"} {
				a.link("/usr/sbin/"+family+"-"+variant+suffix, "xtables-"+variant+"-multi")
			}
			a.link("/usr/sbin/"+family+suffix, family+"-"+source.iptables()+suffix)
		}
	}
}

// copyFile copies a file and its permissions.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
