package cni

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// NetNSDir is where iproute2 and the runtimes have their network namespaces.
const NetNSDir = "/run/netns"

// NewNetNS makes a network namespace whose interface lo is up, and returns its
// path, which is that of a new file in dir; an empty dir means NetNSDir. The calling
// thread stays where it is. After a crash in the middle, DeleteNetNS removes what is
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
	made := make(chan error, 1)
	go func() {
		// The thread is never unlocked: it ends with the goroutine, so that nothing else
		// runs in the new namespace.
		goruntime.LockOSThread()
		made <- mountNew(path)
	}()
	if err := <-made; err != nil {
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

// identify returns what tells a namespace from others while it lives, empty for a
// path that leads to none: not every runtime has namespaces. The namespace of this
// process is an error: plugins would change the host.
func identify(path string) (string, error) {
	id := idOf(path)
	if id != "" && id == idOf("/proc/thread-self/ns/net") {
		return "", fmt.Errorf("NetNS %s is the network namespace of this process", path)
	}
	return id, nil
}

func idOf(path string) string {
	var stat unix.Stat_t
	if path == "" || !isNetNS(path) || unix.Stat(path, &stat) != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
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
