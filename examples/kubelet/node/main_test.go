package node

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) {
	oneAtATime()
	leakcheck.Main(m)
}
