package doctor

import (
	"context"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// lookAtNode tells what the cluster thinks of the node: Ready, pressures, cordoned.
func lookAtNode(ctx context.Context, n *Node, r *report) {
	s := n.cluster(r)
	if s == nil {
		return
	}
	var node corev1.Node
	status, _, err := s.get(ctx, nodePath(n.Name), &node)
	switch {
	case err != nil:
		r.skip("the API server does not answer")
		return
	case status == http.StatusNotFound:
		r.problem("look why it is not registered: journalctl -u kubelet; registerNode may be false, or the name another", "the cluster has no Node %s", n.Name)
		return
	case status != http.StatusOK:
		r.skip("the API server answers %d", status)
		return
	}
	lookAtConditions(node.Status.Conditions, r)
	if r.fine() {
		cordoned := ""
		if node.Spec.Unschedulable {
			cordoned = ", cordoned"
		}
		r.ok("Ready%s, kubelet %s", cordoned, node.Status.NodeInfo.KubeletVersion)
	}
}

// lookAtConditions tells of each that is not as it should be.
func lookAtConditions(conditions []corev1.NodeCondition, r *report) {
	ready := false
	for _, c := range conditions {
		ready = ready || c.Type == corev1.NodeReady
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
			r.problem("the cluster does not hear from the kubelet: see to what stands above", "Ready is Unknown since %s: %s", day(c.LastTransitionTime.Time), c.Message)
		case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue:
			r.problem("see to what it names", "not Ready since %s: %s: %s", day(c.LastTransitionTime.Time), c.Reason, c.Message)
		case c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue:
			r.problem("make room: pods are kept away, and may be evicted", "%s since %s: %s", c.Type, day(c.LastTransitionTime.Time), c.Message)
		}
	}
	if !ready {
		r.problem("look why the kubelet does not tell how the node is: journalctl -u kubelet", "the Node has no condition Ready")
	}
}

// lookAtLease tells how long ago the node last said that it lives.
func lookAtLease(ctx context.Context, n *Node, r *report) {
	s := n.cluster(r)
	if s == nil {
		return
	}
	var lease coordinationv1.Lease
	status, now, err := s.get(ctx, leasePath(n.Name), &lease)
	switch {
	case err != nil:
		r.skip("the API server does not answer")
		return
	case status == http.StatusNotFound:
		r.problem("look why the kubelet does not make it: journalctl -u kubelet", "there is no Lease kube-node-lease/%s: the cluster takes the node for dead", n.Name)
		return
	case status != http.StatusOK:
		r.skip("the API server answers %d", status)
		return
	case lease.Spec.RenewTime == nil:
		r.problem("look why the kubelet does not renew it: journalctl -u kubelet", "the Lease was never renewed")
		return
	}
	if now.IsZero() {
		now = time.Now()
	}
	limit := time.Duration(n.Kubelet.NodeLeaseDurationSeconds) * time.Second
	if d := lease.Spec.LeaseDurationSeconds; d != nil {
		limit = time.Duration(*d) * time.Second
	}
	if age := now.Sub(lease.Spec.RenewTime.Time); age > limit {
		r.problem("the kubelet has ended, hangs, does not reach the API server or has another clock: see above", "the Lease was renewed %s ago, it lasts %s", age.Round(time.Second), limit)
		return
	}
	r.ok("renewed %s ago, lasts %s", max(now.Sub(lease.Spec.RenewTime.Time), 0).Round(time.Second), limit)
}
