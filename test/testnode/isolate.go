package testnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// isolateScript runs in a new mount namespace: $1 is the folder of all nodes, $2 the
// node's. It lets go of what is mounted for other nodes, which would live as long as
// this namespace, and puts the node's folders over the machine's. A mount whose folder
// its owner removes meanwhile goes by itself. What is mounted later is shared within the
// namespace, as the runtime and a kubelet expect.
const isolateScript = `set -e
base=$1 node=$2
cut -d' ' -f5 /proc/self/mountinfo | sort -r | while read -r path; do
	case $path in
	"$node"/*) ;;
	"$base"/*) umount -l "$path" || [ -z "$(cut -d' ' -f5 /proc/self/mountinfo | grep -Fx "$path")" ] ;;
	esac
done
inside=$node/private/lib/${base##*/}/${node##*/}
mkdir -p "$inside" "$node/private/log"
mount --bind "$node" "$inside"
mount --rbind "$node/private/lib" /var/lib
mount --bind "$node/private/log" /var/log
mount -t tmpfs -o mode=755 run /run
mount --make-rshared /
`

// isolate makes the node's mount namespace. A file can hold one only on a mount that is
// not shared with other namespaces.
func (l layout) isolate(ctx context.Context) error {
	err := l.makePins()
	if err == nil {
		err = run(ctx, "unshare", "--mount="+l.mountNamespace(), "--propagation", "private",
			"sh", "-c", isolateScript, "isolate", filepath.Dir(l.dir), l.dir)
	}
	if err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	return nil
}

// makePins makes the file that is to hold the mount namespace.
func (l layout) makePins() error {
	file := l.mountNamespace()
	pins := filepath.Dir(file)
	if err := os.Mkdir(pins, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Mount(pins, pins, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on itself: %w", pins, err)
	}
	if err := unix.Mount("", pins, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mount %s private: %w", pins, err)
	}
	return nil
}

// Private returns where a path below /var/lib or /var/log of an isolated node is on
// this machine: Private("log", "pods") for /var/log/pods. Mounts made on the node are
// not seen there.
func (n *Node) Private(elem ...string) string {
	return n.lay.path(append([]string{"private"}, elem...)...)
}

// MountNamespace returns the path of the node's mount namespace, for nsenter --mount.
// It is empty when that is the one of this program.
func (n *Node) MountNamespace() string { return n.mounts }
