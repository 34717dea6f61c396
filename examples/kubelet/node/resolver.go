package node

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

const (
	// resolverPeriod is how often the resolver configuration of the node is checked, the
	// kubelet's period.
	resolverPeriod = 30 * time.Second
	// reasonResolver is the reason of the event about it.
	reasonResolver = "CheckLimitsForResolvConf"
)

// watchResolver tells, until ctx ends, when the resolver configuration of the node is more
// than pods can have, or cannot be read.
func (n *Node) watchResolver(ctx context.Context) error {
	path := n.cfg.Kubelet.ResolverConfig
	if path == nil || *path == "" {
		return nil
	}
	tick := time.NewTicker(resolverPeriod)
	defer tick.Stop()
	for {
		if problem := n.resolverProblem(*path); problem != "" {
			n.events.Record(events.OfNode(n.cfg.Name), corev1.EventTypeWarning, reasonResolver, problem)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// resolverProblem returns what is wrong with the resolver configuration, empty if nothing.
func (n *Node) resolverProblem(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	d := podspec.DNS{Host: podspec.ParseResolvConf(content), ClusterDomain: n.cfg.Kubelet.ClusterDomain}
	return d.CheckHost(path)
}
