package pinning

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }
