package podstore

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Recalled is what an earlier process knew of the node's pods.
type Recalled struct {
	// Pods are those that it had, sorted by namespace and name. They have no status.
	Pods []*corev1.Pod
	// Contact is when the cluster last heard of this node; zero: nobody knows.
	Contact time.Time

	toleration time.Duration
}

// MayStart reports whether a pod may be started at a time, and until when; a zero time
// is for ever. After that the cluster may have given the pod up, and run another one in
// its place: a Deployment does so as soon as it has. A pod that runs may go on.
//
// When the clock shows a time before the last contact, nobody knows how late it is: then
// only pods may start that tolerate an unreachable node for ever, as those of DaemonSets.
func (r Recalled) MayStart(pod *corev1.Pod, now time.Time) (ok bool, until time.Time) {
	tolerates, forever := toleration(pod, r.toleration)
	if forever {
		return true, time.Time{}
	}
	until = r.Contact.Add(tolerates)
	return !r.Contact.IsZero() && !now.Before(r.Contact) && now.Before(until), until
}

// toleration returns how long a pod stays with a node that has the taint
// node.kubernetes.io/unreachable with effect NoExecute: as in the control plane the first
// toleration that matches counts, and what the configuration says if there is none.
func toleration(pod *corev1.Pod, none time.Duration) (d time.Duration, forever bool) {
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		if !matches(t) {
			continue
		}
		if t.TolerationSeconds == nil {
			return 0, true
		}
		return seconds(*t.TolerationSeconds), false
	}
	return max(0, none), false
}

// seconds returns a duration without overflow.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(max(0, min(n, most))) * time.Second
}

// matches reports whether a toleration is for that taint, which has no value
// (https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-unreachable).
func matches(t *corev1.Toleration) bool {
	if t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute {
		return false
	}
	if t.Key != "" && t.Key != corev1.TaintNodeUnreachable {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return t.Key != "" && t.Value == ""
	}
	return false
}
