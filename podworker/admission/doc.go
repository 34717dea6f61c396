// Package admission decides whether a node takes a pod: whether the node has the
// resources, labels and abilities that the pod asks for, and which pods must make
// room for one that the node cannot do without.
//
//	d := admission.Admit(pod, active, admission.Node{Node: node})
//	switch d.Verdict {
//	case admission.Admitted: // start it
//	case admission.Preempt:  // stop d.Victims, then ask again
//	case admission.NotYet:   // ask again when something has changed
//	case admission.Never:    // the pod has failed, with d.Reason and d.Message
//	}
//
// Reasons and messages are those of the kubelet. The package is not for
// scheduling, and it allocates neither CPUs nor devices. [Admit] is one pure
// function: it does no I/O, keeps nothing, changes none of its arguments, and may
// be called from any goroutine. No privileges are needed.
package admission
