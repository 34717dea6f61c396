package node_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// TestToldBesideTheNode: what runs beside the node starts when it serves, tells events of
// the Node, and ends with it.
func TestToldBesideTheNode(t *testing.T) {
	onMachine(t, func(m *machine) {
		serving, ended := false, false
		k := m.start(m.t, func(c *node.Config) {
			c.Serving = func() { serving = true }
			c.Beside = func(ctx context.Context, tell node.Tell) error {
				tell("Warning", "SystemOOM", "System OOM encountered, victim process: x, pid: 7")
				<-ctx.Done()
				ended = true
				return nil
			}
		})
		synctest.Wait()
		if !serving {
			t.Error("nobody was told that it serves")
		}
		if !m.log.has("reason=SystemOOM", "victim process: x") {
			t.Error("the log has no event SystemOOM")
		}
		k.end()
		if !ended {
			t.Error("what ran beside the node did not end with it")
		}
	})
}
