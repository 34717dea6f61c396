package testnode

import (
	"fmt"
	"os"
	"strings"
)

// mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	path   string // Mount point.
	fsType string // For example "cgroup".
}

func mountInfo() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return parseMountInfo(string(data)), nil
}

func parseMountInfo(text string) []mount {
	var mounts []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if !ok || len(before) < 5 || len(after) < 1 {
			continue
		}
		mounts = append(mounts, mount{path: unescape(before[4]), fsType: after[0]})
	}
	return mounts
}

// unescape undoes the octal escapes that the kernel uses in mount points.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
