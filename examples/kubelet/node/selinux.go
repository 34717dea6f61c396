package node

import "os"

// hasSELinux reports whether the kernel of this machine enforces SELinux labels, or could:
// then its file system is mounted, see selinux(8).
func hasSELinux() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}
