package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Node is what a pod is admitted to. The zero value admits nothing.
type Node struct {
	// Node is the node as it is now: name, labels and taints; status.allocatable;
	// those of status.conditions about pressure; status.nodeInfo.operatingSystem,
	// status.features and status.declaredFeatures. nil: it is not known yet.
	Node *corev1.Node
	// ShuttingDown says that the machine is about to stop.
	ShuttingDown bool
	// AppArmor says that the kernel can confine containers by it.
	AppArmor bool
	// Sysctls are those that pods may set; the zero value has the safe ones.
	Sysctls Sysctls
	// Requires returns the features that a pod needs the node to declare; nil: no
	// pod needs any.
	Requires func(*corev1.Pod) []string
}

// Verdict says what becomes of a pod. There is no verdict of value 0.
type Verdict uint8

// The verdicts.
const (
	// Admitted: the pod may start.
	Admitted Verdict = iota + 1
	// Preempt: the pod may start once the victims have ended.
	Preempt
	// NotYet: the pod may be admitted when other pods have ended, or the state of the
	// node has changed. A kubelet lets the pod fail nevertheless.
	NotYet
	// Never: the pod does not fit this node as it is set up.
	Never
)

// String returns "admitted", "preempt", "not yet" or "never".
func (v Verdict) String() string {
	switch v {
	case Admitted:
		return "admitted"
	case Preempt:
		return "preempt"
	case NotYet:
		return "not yet"
	case Never:
		return "never"
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// Decision is the answer of Admit.
type Decision struct {
	Verdict Verdict
	// Reason and Message are for the status of a pod that is refused; "" else.
	Reason, Message string
	// Victims are the pods to stop, with their own grace, for reason ReasonPreempting
	// and MessagePreempting; only with Preempt.
	Victims []*corev1.Pod
}

// Why a pod is refused: status.reason of a kubelet's pods. Pods without room have
// "OutOf" and the name of the resource.
const (
	ReasonEvicted          = "Evicted"
	ReasonSysctl           = "SysctlForbidden"
	ReasonNodeInfo         = "InvalidNodeInfo"
	ReasonOSLabel          = "PodOSSelectorNodeLabelDoesNotMatch"
	ReasonOS               = "PodOSNotSupported"
	ReasonGroups           = "SupplementalGroupsPolicyNotSupported"
	ReasonOutOf            = "OutOf"
	ReasonNodeAffinity     = "NodeAffinity"
	ReasonNodeName         = "NodeName"
	ReasonNodePorts        = "NodePorts"
	ReasonTaint            = "TaintToleration"
	ReasonAppArmor         = "AppArmor"
	ReasonFeature          = "PodFeatureUnsupported"
	ReasonShutdown         = "NodeShutdown"
	ReasonPreempting       = "Preempting"
	MessagePreempting      = "Preempted in order to admit critical pod"
	messageNodeInfo        = "Kubelet cannot get node info."
	messageShutdown        = "Pod was rejected as the node is shutting down."
	messageAppArmorMissing = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
)

// Admit decides about a pod that is to start. Active are the pods that hold
// resources of the node: those admitted before that have not ended; the pod itself
// may be among them.
//
// Checks are made in the order of the kubelet, and the first that fails gives the
// reason. A critical pod that fails for want of resources alone preempts others.
// Pods that run already are not to be asked about again.
func Admit(pod *corev1.Pod, active []*corev1.Pod, node Node) Decision {
	if node.Node == nil {
		return refuse(NotYet, ReasonNodeInfo, messageNodeInfo)
	}
	decision := admit()
	for _, check := range []func() Decision{
		func() Decision { return checkPressure(pod, node.Node) },
		func() Decision { return node.Sysctls.check(pod) },
		func() Decision { return checkPlatform(pod, node.Node) },
		func() Decision { return checkFit(pod, active, node.Node) },
		func() Decision { return checkAppArmor(pod, node.AppArmor) },
		func() Decision { return checkFeatures(pod, node) },
		func() Decision { return checkShutdown(node.ShuttingDown) },
	} {
		switch d := check(); d.Verdict {
		case NotYet, Never:
			return d
		case Preempt:
			decision = d // if nothing else is in the way
		case Admitted:
		}
	}
	return decision
}

func admit() Decision { return Decision{Verdict: Admitted} }

func refuse(v Verdict, reason, format string, args ...any) Decision {
	return Decision{Verdict: v, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func checkShutdown(shuttingDown bool) Decision {
	if shuttingDown {
		return refuse(NotYet, ReasonShutdown, messageShutdown)
	}
	return admit()
}
