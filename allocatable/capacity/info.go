package capacity

import (
	"cmp"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// readInfo returns the identity of the machine and its system. A kernel always
// has a version and a boot ID; the rest may be missing in a container.
func readInfo(t tree) (corev1.NodeSystemInfo, error) {
	info := corev1.NodeSystemInfo{OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH}
	var err error
	if info.KernelVersion, err = t.optional("/proc/sys/kernel/osrelease"); err != nil {
		return info, err
	}
	if info.BootID, err = t.optional("/proc/sys/kernel/random/boot_id"); err != nil {
		return info, err
	}
	// machine-id(5); D-Bus had it first.
	if info.MachineID, err = t.firstOf("/etc/machine-id", "/var/lib/dbus/machine-id"); err != nil {
		return info, err
	}
	// The firmware of PCs, of POWER, and of machines with a device tree.
	info.SystemUUID, err = t.firstOf("/sys/class/dmi/id/product_uuid", "/proc/device-tree/system-id", "/proc/device-tree/vm,uuid")
	if err != nil {
		return info, err
	}
	info.SystemUUID = cmp.Or(info.SystemUUID, info.MachineID)
	info.OSImage, err = osImage(t)
	return info, err
}

// firstOf returns the content of the first file that has any. Device trees end
// their texts with a zero.
func (t tree) firstOf(names ...string) (string, error) {
	for _, name := range names {
		text, err := t.optional(name)
		if err != nil {
			return "", err
		}
		if text = strings.TrimSpace(strings.TrimRight(text, "\x00")); text != "" {
			return text, nil
		}
	}
	return "", nil
}

// osImage returns the name of the system for people, "Linux" where it has none; of
// the two places of the file the first counts (os-release(5)).
func osImage(t tree) (string, error) {
	text, err := t.firstOf("/etc/os-release", "/usr/lib/os-release")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			if name := unquote(value); name != "" {
				return name, nil
			}
		}
	}
	return "Linux", nil
}

// unquote takes the quotes of a shell off.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' && s[0] != '\'' || s[len(s)-1] != s[0] {
		return s
	}
	quote, s := s[0], s[1:len(s)-1]
	if quote == '\'' {
		return s
	}
	return strings.NewReplacer(`\"`, `"`, `\$`, `$`, "\\`", "`", `\\`, `\`).Replace(s)
}

// readAppArmor asks the module's parameter
// (https://docs.kernel.org/admin-guide/LSM/apparmor.html).
func readAppArmor(t tree) (bool, error) {
	enabled, err := t.optional("/sys/module/apparmor/parameters/enabled")
	return enabled == "Y", err
}
