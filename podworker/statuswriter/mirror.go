package statuswriter

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mirror is the picture of a static pod at the API server, as far as can be told from it.
type mirror struct {
	pod *corev1.Pod
	// owner is the UID that it names as that of its static pod.
	owner types.UID
}

// shows reports whether it is the mirror of a pod of the node. The UID that it names is no
// proof: who may make pods in one namespace could name one of another, and be told in its
// place. The namespace and the name are, which the kubelet goes by, too.
func (m mirror) shows(pod *corev1.Pod) bool {
	return isStatic(pod) && m.owner == pod.UID && m.pod.Namespace == pod.Namespace && m.pod.Name == pod.Name
}

// mirrorLocked returns the mirror of a pod of the node, nil if none was observed.
func (w *Writer) mirrorLocked(pod *corev1.Pod) *corev1.Pod {
	for _, m := range w.mirrors {
		if m.shows(pod) {
			return m.pod
		}
	}
	return nil
}

// noteLocked keeps a mirror, and returns the entry of its pod; nil if it is not known yet, or
// if the mirror is none of it, or old.
func (w *Writer) noteLocked(m mirror) *entry {
	if known, ok := w.mirrors[m.pod.UID]; ok && older(m.pod.ResourceVersion, known.pod.ResourceVersion) {
		return nil
	}
	w.mirrors[m.pod.UID] = m
	if e := w.entries[m.owner]; e != nil && m.shows(e.pod) {
		return e
	}
	return nil
}

// shownLocked forgets the mirror of a UID if it is one, and returns the entry that is shown
// by the object of that UID, with the UID of its pod; nil if there is none.
func (w *Writer) shownLocked(uid types.UID) (types.UID, *entry) {
	m, ok := w.mirrors[uid]
	if !ok {
		return uid, w.entries[uid]
	}
	delete(w.mirrors, uid)
	if e := w.entries[m.owner]; e != nil && e.server != nil && e.server.UID == uid {
		return m.owner, e
	}
	return uid, nil
}

// see takes what the API server has, and reports whether that is the terminal status that
// waited for it.
func (e *entry) see(pod *corev1.Pod) bool {
	waited := !e.acknowledged()
	e.observe(pod, time.Now())
	return waited && e.acknowledged()
}
