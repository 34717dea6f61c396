package cni

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/osthread"
)

// NetNSDir is where iproute2 and the runtimes have their network namespaces.
const NetNSDir = "/run/netns"

// NewNetNS makes a network namespace whose interface lo is up, and returns its
// path, which is that of a new file in dir; an empty dir means NetNSDir. The threads
// of the caller stay where they are. After a crash in the middle, DeleteNetNS removes what is
// there. It needs CAP_SYS_ADMIN.
func NewNetNS(dir, name string) (string, error) {
	if dir == "" {
		dir = NetNSDir
	}
	if !isFileName(name) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("network namespace %q: must be a file name", name)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("network namespace: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return "", fmt.Errorf("network namespace: %w", err)
	}
	file.Close()
	// The thread ends there, so that nothing else runs in the new namespace.
	if err := osthread.Do(func() error { return mountNew(path) }); err != nil {
		return "", errors.Join(fmt.Errorf("network namespace %s: %w", path, err), os.Remove(path))
	}
	return path, nil
}

// mountNew moves the thread into a new namespace and mounts it on a file.
func mountNew(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// loopbackUp sets the flag of lo in the thread's namespace, see netdevice(7).
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// DeleteNetNS removes a network namespace that NewNetNS or "ip netns add" made. A
// path that does not exist is no error. It refuses what is neither a mounted
// namespace nor an empty file, and does not follow links. Processes inside keep
// the namespace itself alive.
func DeleteNetNS(path string) error {
	if err := deleteNetNS(path); err != nil {
		return fmt.Errorf("network namespace %s: %w", path, err)
	}
	return nil
}

func deleteNetNS(path string) error {
	var stat unix.Stat_t
	switch err := unix.Lstat(path, &stat); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("is no file of a namespace; it stays")
	}
	// Mounts may lie on top of each other after a crash.
	for isNetNS(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount: %w", err)
		}
	}
	if err := unix.Lstat(path, &stat); err == nil && stat.Size > 0 {
		return errors.New("is a file with content, no namespace; it stays")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// isNetNS reports whether the file system of a path is that of namespaces, see
// ioctl_ns(2).
func isNetNS(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && int64(fs.Type) == unix.NSFS_MAGIC
}

// identify returns what tells a namespace from every other one, before and after it,
// empty for a path that leads to none: not every runtime has namespaces. The namespace
// of this process is an error: plugins would change the host.
func identify(path string) (string, error) {
	var own, there unix.Stat_t
	if path == "" || !isNetNS(path) || unix.Stat(path, &there) != nil {
		return "", nil
	}
	if unix.Stat("/proc/thread-self/ns/net", &own) == nil && own.Dev == there.Dev && own.Ino == there.Ino {
		return "", fmt.Errorf("NetNS %s is the network namespace of this process", path)
	}
	// The inode alone says little: the kernel gives it to another one at once.
	return fmt.Sprintf("%s %d:%d %d", bootID(), there.Dev, there.Ino, cookie(path)), nil
}

// bootID is of this boot alone, see random(4); empty where there is none.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// cookie is of this namespace alone as long as the machine runs, see SO_NETNS_COOKIE in
// the kernel's include/uapi/asm-generic/socket.h. It is 0 before Linux 5.14, and
// without CAP_SYS_ADMIN.
func cookie(path string) (c uint64) {
	_ = osthread.Do(func() error {
		ns, err := os.Open(path)
		if err != nil {
			return err
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		c, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	return c
}

// still returns the path of a namespace for DEL, empty if it is gone: its name may
// lead nowhere after a reboot, or into a stranger, even into the host, when it is
// that of a process. An id says which namespace it was at the time of ADD.
func still(path, id string) string {
	now, err := identify(path)
	if err != nil || id != "" && id != now || now == "" && filepath.IsAbs(path) {
		return ""
	}
	return path
}
