package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
	"github.com/nodekit-go/nodekit/podworker/events"
)

// Heartbeat is how a node tells the control plane that it is there, and how it is.
// Leases and Nodes are required; they should have connections of their own.
type Heartbeat struct {
	// Leases are those of the namespace kube-node-lease.
	Leases lease.Client
	// Link is the connection of Leases; nil: it sees to dead ones itself.
	Link *lease.Link
	// Nodes is the API of Nodes.
	Nodes nodestatus.Client
	// Labels are those of a new Node beside the default ones.
	Labels map[string]string
	// Addresses says which addresses the Node has; its Name is filled in.
	Addresses nodestatus.AddressRules
	// Host has the addresses; nil: this machine.
	Host nodestatus.Host
}

// heartbeat keeps the Lease and the status of the Node.
type heartbeat struct {
	node     *Node
	cfg      Heartbeat
	keeper   *lease.Keeper
	reporter *nodestatus.Reporter
	runtime  *runtimeHealth
	// last is the Node as the API server returned it last; nil before.
	last atomic.Pointer[corev1.Node]
	// found are the addresses that the Node was to be told last; nil before.
	found atomic.Pointer[[]corev1.NodeAddress]
	// renewal is the time of the last renewal of the Lease; nil before the first.
	renewal atomic.Pointer[time.Time]
}

// newHeartbeat returns the heartbeat of a node; nil on a node that talks to no control
// plane.
func newHeartbeat(n *Node) (*heartbeat, error) {
	if n.cfg.Heartbeat == nil {
		return nil, nil //nolint:nilnil // a node of its own has none
	}
	h := &heartbeat{node: n, cfg: *n.cfg.Heartbeat, runtime: &runtimeHealth{}}
	h.cfg.Addresses.Name = n.cfg.Name
	if h.cfg.Host == nil {
		h.cfg.Host = nodestatus.ThisHost{}
	}
	k := n.cfg.Kubelet
	var err error
	h.reporter, err = nodestatus.New(h.cfg.Nodes, nodestatus.Config{
		Name:         n.cfg.Name,
		Registration: h.registration(),
		Facts:        h.facts,
		NotReady:     h.notReady,
		Pressures:    latePressures{n},
		Period:       k.NodeStatusUpdateFrequency.Duration,
		ReportPeriod: k.NodeStatusReportFrequency.Duration,
		Timeout:      min(nodestatus.DefaultTimeout, time.Duration(k.NodeLeaseDurationSeconds)*time.Second),
		Hooks: nodestatus.Hooks{
			Registered: func(*corev1.Node) { n.cfg.metrics.startup.registered() },
			Reported:   h.reported,
			Event:      func(e nodestatus.Event) { n.events.Record(events.OfNode(n.cfg.Name), e.Type, e.Reason, e.Message) },
		},
		Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	h.keeper, err = lease.New(h.cfg.Leases, lease.Config{
		Name:     n.cfg.Name,
		Duration: time.Duration(k.NodeLeaseDurationSeconds) * time.Second,
		Node:     h.reporter.UID,
		Link:     h.cfg.Link,
		Hooks:    lease.Hooks{Renewed: func(r lease.Renewal) { h.renewal.Store(&r.Time) }},
		Log:      n.log,
	})
	return h, err
}

// renewed returns when the Lease was last renewed by this process, zero if it was not.
func (h *heartbeat) renewed() time.Time {
	if t := h.renewal.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// registration returns what a new Node has; nil if it is not created from here.
func (h *heartbeat) registration() *nodestatus.Registration {
	k := h.node.cfg.Kubelet
	if k.RegisterNode != nil && !*k.RegisterNode {
		return nil
	}
	return &nodestatus.Registration{
		Hostname:         h.cfg.Addresses.Hostname,
		Labels:           h.cfg.Labels,
		ResetDevices:     h.node.devicesForgotten(),
		Taints:           k.RegisterWithTaints,
		ProviderID:       k.ProviderID,
		CloudProvider:    h.cfg.Addresses.CloudProvider,
		ControllerAttach: k.EnableControllerAttachDetach == nil || *k.EnableControllerAttachDetach,
	}
}

// reported takes the Node as the API server has it.
func (h *heartbeat) reported(n *corev1.Node) {
	h.node.reportedInUse(n.Status.VolumesInUse)
	h.node.cfg.metrics.startup.reported(n)
	old := h.last.Swap(n)
	if old == nil || old.UID != n.UID {
		h.node.registered()
	}
}

// object returns the Node as the API server has it, nil if that is not known. It must
// not be changed.
func (h *heartbeat) object() *corev1.Node {
	if h == nil {
		return nil
	}
	return h.last.Load()
}

// refresh reads the Node anew and reports whether it could.
func (h *heartbeat) refresh(ctx context.Context) bool {
	if h == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, nodestatus.DefaultTimeout)
	defer cancel()
	n, err := h.cfg.Nodes.Get(ctx, h.node.cfg.Name, metav1.GetOptions{})
	if err != nil {
		h.node.log.Warn("the node was not read anew", "err", err)
		return false
	}
	h.reported(n)
	return true
}

// wake has the status computed at once.
func (h *heartbeat) wake() {
	if h != nil {
		h.reporter.Wake()
	}
}

// run does its work until ctx ends.
func (h *heartbeat) run(ctx context.Context) error {
	if h == nil {
		return nil
	}
	h.node.cfg.metrics.startup.registers()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.keeper.Run(ctx) })
	g.Go(func() error { return h.reporter.Run(ctx) })
	g.Go(func() error { return h.watchRuntime(ctx) })
	return g.Wait()
}

// validate names the field that is missing or wrong.
func (h *Heartbeat) validate() error {
	switch {
	case h == nil:
		return nil
	case h.Leases == nil:
		return errors.New("node: Config.Heartbeat.Leases is nil, want the Leases of kube-node-lease")
	case h.Nodes == nil:
		return errors.New("node: Config.Heartbeat.Nodes is nil, want the API of Nodes")
	}
	// With an address that can never be one nobody could reach the node. One that the
	// machine has not got yet may come: the node waits for it.
	if err := h.Addresses.Validate(); err != nil {
		return fmt.Errorf("node: Config.Heartbeat.Addresses: %w", err)
	}
	return nil
}
