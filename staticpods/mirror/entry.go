package mirror

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nodekit-go/nodekit/staticpods"
)

// entry is what a Keeper knows of one name.
type entry struct {
	// want is the static pod of that name; nil: there is none.
	want *corev1.Pod
	// have is what the API server has of that name; nil: nothing, as far as is known.
	have *corev1.Pod
	// version is the newest resourceVersion known of what had the name, removed the UID
	// of the object that was removed last: a watch may lag behind both. lagging is true
	// until it has shown that the latter is gone.
	version string
	removed types.UID
	lagging bool
	// unseen is true while the watch does not show have. Whether it is there is found
	// out at lookAt, again and again; looks counts.
	unseen bool
	lookAt time.Time
	looks  int
	// revision grows with each change, for calls that are out meanwhile.
	revision uint64
	// due is when it may be looked at; failures counts attempts in a row.
	due      time.Time
	failures int
	// busy is true while it is looked at.
	busy bool
	// said is the failure in the log.
	said string
}

// observe takes what a watch shows, and reports whether it may need something.
func (e *entry) observe(pod *corev1.Pod) bool {
	if pod.UID == e.removed || older(pod.ResourceVersion, e.version) {
		return false
	}
	before := e.have
	e.have, e.version, e.unseen, e.lagging = pod, pod.ResourceVersion, false, false
	return before == nil || before.UID != pod.UID || !sameMirror(before, pod)
}

// miss takes that a watch shows nothing of that name, and reports whether that may need
// something.
func (e *entry) miss() bool {
	e.lagging = false
	if e.have == nil || e.unseen {
		return false
	}
	e.unseen, e.lookAt, e.looks = true, time.Time{}, 0
	return true
}

// take makes what the API server answered what it has. It is looked at again unless the
// watch shows it.
func (e *entry) take(pod *corev1.Pod, now time.Time) {
	switch {
	case e.have == nil || e.have.UID != pod.UID:
		e.looks = 0
	case !e.unseen:
		return // the watch was faster
	}
	e.have, e.version = pod, pod.ResourceVersion
	e.unseen, e.lookAt = true, now.Add(min(firstLook<<min(e.looks, 10), maxRetry))
	e.looks++
}

// drop takes that the API server does not have an object any more.
func (e *entry) drop(uid types.UID) {
	if e.have != nil && e.have.UID == uid {
		e.removed, e.have, e.lagging, e.unseen = uid, nil, !e.unseen, false
	}
}

// vanish takes that the API server has nothing of that name.
func (e *entry) vanish() {
	if e.have != nil {
		e.drop(e.have.UID)
	}
}

// doubt forgets a pod that is no mirror: whether it still has the name is found out
// anew.
func (e *entry) doubt() {
	if e.have != nil && !isMirror(e.have) {
		e.have, e.unseen = nil, false
	}
}

// empty reports whether nothing has to be remembered.
func (e *entry) empty() bool { return e.want == nil && e.have == nil && !e.busy && !e.lagging }

// step is what to do about one name.
type step uint8

const (
	// done: the API server has what it should have.
	done step = iota
	// waiting: the containers of the pod are still being stopped.
	waiting
	// look: whether it still has the object is not certain.
	look
	// create: it lacks a mirror.
	create
	// remove: it has a mirror that it should not have.
	remove
	// taken: it has a pod of that name that is nobody's mirror, which is left alone.
	taken
)

// world is what a decision depends on besides the entry.
type world struct {
	now time.Time
	// node is the UID of the Node.
	node types.UID
	// ending is true while containers of a static pod of the name are being stopped.
	ending bool
	// whole is true when every static pod is known.
	whole bool
}

// next decides.
func (e *entry) next(w world) step {
	switch {
	case e.have == nil && e.want == nil:
		return done
	case e.unseen && !e.lookAt.After(w.now):
		return look
	case e.have != nil && !isMirror(e.have):
		if e.want == nil {
			return done
		}
		return taken
	case e.want == nil && !w.whole:
		return done
	case e.want != nil && e.have != nil && shows(e.have, e.want, w.node):
		return done
	case w.ending:
		return waiting
	case e.have == nil:
		return create
	}
	return remove
}

// shows reports whether a mirror is that of a static pod, belongs to the Node, and is
// not being deleted.
func shows(mirror, pod *corev1.Pod, node types.UID) bool {
	if mirror.DeletionTimestamp != nil || mirror.Annotations[corev1.MirrorPodAnnotationKey] != hashOf(pod) {
		return false
	}
	owners := mirror.OwnerReferences
	return len(owners) == 1 && owners[0].Kind == ownerKind && owners[0].UID == node
}

// sameMirror reports whether two versions of an object are one and the same mirror as
// far as shows looks.
func sameMirror(a, b *corev1.Pod) bool {
	if (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) || isMirror(a) != isMirror(b) ||
		a.Annotations[corev1.MirrorPodAnnotationKey] != b.Annotations[corev1.MirrorPodAnnotationKey] ||
		len(a.OwnerReferences) != len(b.OwnerReferences) {
		return false
	}
	for i := range a.OwnerReferences {
		if a.OwnerReferences[i].UID != b.OwnerReferences[i].UID {
			return false
		}
	}
	return true
}

// isMirror reports whether an object of the API server is the mirror of a static pod
// (https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-mirror).
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// hashOf returns what tells versions of a static pod apart.
func hashOf(pod *corev1.Pod) string { return pod.Annotations[staticpods.AnnotationHash] }

// sameManifest reports whether two static pods are the same version of a manifest, or
// both are none.
func sameManifest(a, b *corev1.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	return hashOf(a) == hashOf(b)
}

// older reports whether a version of an object comes before another; versions that
// cannot be compared do not.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
