package node

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ShareMounts makes mounts below the root directory of a node reach the mount namespaces
// of others, and theirs the node's: of the container runtime, and of storage drivers in
// containers. A directory that is not on a shared mount becomes one; it stays so. It needs
// CAP_SYS_ADMIN.
func ShareMounts(root string) error {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return fmt.Errorf("share mounts below %s: %w", root, err)
	}
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("share mounts below %s: %w", root, err)
	}
	table, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("share mounts below %s: %w", root, err)
	}
	defer table.Close()
	shared, err := isShared(table, resolved)
	if err != nil {
		return fmt.Errorf("share mounts below %s: %w", root, err)
	}
	if shared {
		return nil
	}
	if err := unix.Mount(resolved, resolved, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to itself: %w", resolved, err)
	}
	if err := unix.Mount("", resolved, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts below %s: %w", resolved, err)
	}
	return nil
}

// isShared reports whether the mount that a directory is on is shared, by a table in the
// format of proc_pid_mountinfo(5): the fifth field is where it is, and among those from
// the seventh to a dash is one that begins with shared.
func isShared(mountinfo io.Reader, dir string) (shared bool, err error) {
	const at, optional = 4, 6
	longest := 0
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= optional {
			continue
		}
		point := unescapeMount.Replace(fields[at])
		if dir != point && point != "/" && !strings.HasPrefix(dir, point+"/") || len(point) < longest {
			continue
		}
		longest, shared = len(point), false // of two at one place the later one counts
		for _, f := range fields[optional:] {
			if f == "-" {
				break
			}
			shared = shared || strings.HasPrefix(f, "shared:")
		}
	}
	return shared, lines.Err()
}

// unescapeMount undoes the escapes of mount points.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
