package csi

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) {
	inNamespaceOfItsOwn()
	leakcheck.Main(m)
}
