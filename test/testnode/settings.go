package testnode

import (
	"fmt"
	"os"
	"path/filepath"
)

// hostSettings are the settings of the kernel that a kubelet changes on its machine,
// which is not a node's to change: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/,
// protectKernelDefaults.
func hostSettings() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// CoverSettings is a shell script that puts the files of [CopySettings], in the folder
// $settings, in place of the kernel's settings. It is for a mount namespace of a
// kubelet's own, below "set -e". A runtime must not see the mounts: it would refuse to
// make user namespaces where parts of /proc are hidden.
const CoverSettings = `mount --make-rprivate /proc
(cd "$settings" && find . -type f | while read -r file; do mount --bind "$file" "/proc/sys/$file"; done)
`

// CopySettings writes the kernel's settings that a kubelet changes to files in dir, as
// they are, for a kubelet to change them there. It makes dir.
func CopySettings(dir string) error {
	for _, name := range hostSettings() {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o755)
		}
		if err == nil {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("copy kernel setting: %w", err)
		}
	}
	return nil
}
