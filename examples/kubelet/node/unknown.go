package node

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus"
	"github.com/nodekit-go/nodekit/podworker/admission"
)

// unknown is what nobody has told of the node yet: its labels at the API server, and what
// its runtime can do.
type unknown struct{ labels, features bool }

// unknown returns what is not known of the node at this moment.
func (n *Node) unknown() unknown {
	a := n.agent.get()
	return unknown{labels: n.beat != nil && n.beat.object() == nil, features: a == nil || a.said.Load() == nil}
}

// without returns a pod that asks for nothing of what is unknown.
func (u unknown) without(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	if u.labels {
		out.Spec.NodeSelector = nil
		if out.Spec.Affinity != nil {
			out.Spec.Affinity.NodeAffinity = nil
		}
	}
	if sc := out.Spec.SecurityContext; u.features && sc != nil {
		sc.SupplementalGroupsPolicy = nil
	}
	return out
}

// messageUnknown is what a pod waits for.
const messageUnknown = "the node does not have what the pod asks for by what is known of it, and not all is known yet: "

// compareLocked compares a pod with the node. What is not known yet is no reason to refuse a
// pod for good, as a kubelet does: nobody makes one of a manifest again. A pod of an earlier
// process was bound for the labels that the node had, which are at the API server.
func (a *admissions) compareLocked(pod *corev1.Pod) admission.Decision {
	node, active := a.node(), a.activeLocked()
	d := admission.Admit(pod, active, node)
	if d.Verdict != admission.Never || a.late.unknown == nil {
		return d
	}
	u := a.late.unknown()
	if u == (unknown{}) {
		return d
	}
	if a.late.recalled(pod.UID) {
		bound := unknown{labels: u.labels}.without(pod)
		if d = admission.Admit(bound, active, node); d.Verdict != admission.Never {
			return d
		}
	}
	if sure := admission.Admit(u.without(pod), active, node); sure.Verdict == admission.Never {
		return sure
	}
	return admission.Decision{Verdict: admission.NotYet, Reason: admission.ReasonNodeInfo, Message: messageUnknown + d.Message}
}

// unregistered is the Node as far as it is known here.
func (n *Node) unregistered() *corev1.Node {
	r, is := n.resources.p.Load(), nodestatus.Registration{Labels: n.cfg.Labels}
	if n.beat != nil {
		is.Labels, is.Hostname = n.beat.cfg.Labels, n.beat.cfg.Addresses.Hostname
	}
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.cfg.Name, Labels: is.Node(n.cfg.Name).Labels}}
	out.Status.NodeInfo = r.machine.Info
	return out
}

// showFeatures gives a Node what its runtime last said that it can do: the API server may not
// have heard of that yet, and there may be none.
func (n *Node) showFeatures(status *corev1.NodeStatus) {
	a := n.agent.get()
	if a == nil {
		return
	}
	if said := a.said.Load(); said != nil {
		status.Features = features(said)
	}
}
