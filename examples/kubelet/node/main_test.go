package node

import (
	"testing"

	oci "github.com/opencontainers/cgroups"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) {
	oneAtATime()
	_, _ = oci.ReadFile("/sys/fs/cgroup", "none") // opens the file system once and keeps it open
	leakcheck.Main(m)
}
