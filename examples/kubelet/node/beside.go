package node

import (
	"context"
	"fmt"
	"time"

	"github.com/nodekit-go/nodekit/podworker/events"
)

// Tell tells an event about the Node, like ("Warning", "SystemOOM", "…").
type Tell func(eventType, reason, message string)

// beside runs what the configuration has run beside the node.
func (n *Node) beside(ctx context.Context) error {
	if n.cfg.Beside == nil {
		return nil
	}
	return n.cfg.Beside(ctx, func(eventType, reason, message string) {
		n.events.Record(events.OfNode(n.cfg.Name), eventType, reason, message)
	})
}

// Stuck says why the node should be restarted: its pods are not looked after any more. It
// is for a watchdog, and nil while the node works or waits for its runtime. It may be called
// from any goroutine.
func (n *Node) Stuck() error {
	a := n.agent.get()
	if a == nil {
		return nil
	}
	if lag := a.pool.Lag(); lag > stuckAfter {
		return fmt.Errorf("the pod workers are %s behind", lag.Round(time.Second))
	}
	return nil
}
