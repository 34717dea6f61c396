package ipvs

import (
	"os"
	"testing"
)

// inGuest skips tests that need a guest of hack/vm.
func inGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("NODEKIT_VM") == "" {
		t.Skip("runs in a guest of hack/vm: make test-guest, make test-vm")
	}
}
