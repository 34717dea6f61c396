package doctor

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
)

// TestKernelForwardingIsOff looks at a real kernel that forwards nothing.
func TestKernelForwardingIsOff(t *testing.T) {
	ns := netnstest.New(t)
	ns.Sysctl(t, "ipv4/ip_forward", "0")
	n := node(t, nil)
	var found []Finding
	if err := ns.Do(func() error { found = look(t, n, "kernel"); return nil }); err != nil {
		t.Fatal(err)
	}
	want(t, found, Problem, "net.ipv4.ip_forward is 0")
}

// TestKernelFullDisks fills real file systems: one with bytes, one with files.
func TestKernelFullDisks(t *testing.T) {
	netnstest.New(t) // skips where namespaces cannot be made
	type result struct {
		space, inodes, readOnly, fine []Finding
		err                           error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: the thread has mounts of its own
		var r result
		defer func() { done <- r }()
		dir := filepath.Join(t.TempDir(), "disk")
		mount := func(options string, flags uintptr) *Node {
			if r.err == nil {
				r.err = os.MkdirAll(dir, 0o755)
			}
			if r.err == nil {
				r.err = syscall.Mount("tmpfs", dir, "tmpfs", flags, options)
			}
			return node(t, func(n *Node) { n.Root, n.Kubelet.PodLogsDir = dir, "" })
		}
		if r.err = syscall.Unshare(syscall.CLONE_NEWNS); r.err != nil {
			return
		}
		if r.err = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); r.err != nil {
			return
		}
		r.fine = look(t, mount("size=1M", 0), "disks")
		n := mount("size=1M,nr_inodes=100", 0)
		if r.err == nil {
			r.err = os.WriteFile(filepath.Join(dir, "full"), make([]byte, 1000<<10), 0o600)
		}
		r.space = look(t, n, "disks")
		n = mount("size=1M,nr_inodes=20", 0)
		for i := range 18 {
			if r.err == nil {
				r.err = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
			}
		}
		n.Kubelet.EvictionHard["nodefs.inodesFree"] = "10%"
		r.inodes = look(t, n, "disks")
		r.readOnly = look(t, mount("size=1M", syscall.MS_RDONLY), "disks")
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	want(t, r.fine, OK, "data: ")
	want(t, r.space, Problem, "nodefs.available is below 10%")
	want(t, r.inodes, Problem, "nodefs.inodesFree is below 10%", "1 inodes left of 20")
	want(t, r.readOnly, Problem, "read-only")
}
