//go:build linux

package cgroups_test

import (
	"os"
	"testing"

	oci "github.com/opencontainers/cgroups"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(taskVariable); task != "" {
		os.Exit(perform(task))
	}
	_, _ = oci.ReadFile("/sys/fs/cgroup", "none") // opens the file system once and keeps it open
	leakcheck.Main(m)
}
