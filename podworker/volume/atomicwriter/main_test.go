package atomicwriter

import (
	"os"
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

// TestMain is also the process that TestKilledProcess kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		writeForever(dir)
	}
	leakcheck.Main(m)
}
