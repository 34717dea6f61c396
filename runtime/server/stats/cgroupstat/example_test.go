package cgroupstat_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// Example reads what a pod uses. A real hierarchy is at /sys/fs/cgroup.
func Example() {
	root, err := exampleHierarchy()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	r, err := cgroupstat.New([]cgroupstat.Hierarchy{{Path: root, V2: true, Controllers: []string{"cpu", "memory"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	u, err := r.Usage("/kubepods/pod1")
	fmt.Println(u.CPU, u.Memory.WorkingSet, u.Memory.Limit == cgroupstat.Unlimited, err)
	// Output: 1.5s 4096 true <nil>
}

// exampleHierarchy stands in for a kernel.
func exampleHierarchy() (string, error) {
	root, err := os.MkdirTemp("", "cgroup")
	if err != nil {
		return "", err
	}
	pod := filepath.Join(root, "kubepods/pod1")
	if err := os.MkdirAll(pod, 0o755); err != nil {
		return "", err
	}
	for name, content := range map[string]string{"cpu.stat": "usage_usec 1500000\n", "memory.current": "6144\n", "memory.stat": "inactive_file 2048\n"} {
		if err := os.WriteFile(filepath.Join(pod, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	return root, nil
}
