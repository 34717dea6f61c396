package staticpods

import (
	"iter"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identities gives the pods of a source their UIDs and remembers when each was first
// seen.
type identities struct {
	adopt func(*corev1.Pod) (types.UID, bool)
	// uids has what was decided for the digests of the pods, seen when a UID was first
	// in a set.
	uids map[string]types.UID
	seen map[types.UID]string
}

func newIdentities(adopt func(*corev1.Pod) (types.UID, bool)) identities {
	return identities{adopt: adopt, uids: map[string]types.UID{}, seen: map[types.UID]string{}}
}

// identify settles the UID of a pod that is new, and when it was first seen.
func (l *identities) identify(r *result, now time.Time) {
	pod := r.pod
	if _, done := pod.Annotations[AnnotationSeen]; done {
		return
	}
	if string(pod.UID) == r.digest { // the manifest gives no UID
		if uid, ok := l.adopted(r); ok {
			adopt(pod, uid)
		}
	}
	l.uids[r.digest] = pod.UID
	if l.seen[pod.UID] == "" {
		l.seen[pod.UID] = now.Format(time.RFC3339Nano)
	}
	pod.Annotations[AnnotationSeen] = l.seen[pod.UID]
}

// adopted returns the UID that the pod shall have instead of its digest. An answer
// stands for as long as the source holds the pod, wherever in it.
func (l *identities) adopted(r *result) (types.UID, bool) {
	if uid, known := l.uids[r.digest]; known {
		return uid, true
	}
	if l.adopt == nil {
		return "", false
	}
	uid, ok := l.adopt(r.pod.DeepCopy())
	return uid, ok && uid != ""
}

// retain drops what was remembered for other pods than these.
func (l *identities) retain(results iter.Seq[*result]) {
	digests, uids := map[string]bool{}, map[types.UID]bool{}
	for r := range results {
		if r.pod != nil {
			digests[r.digest], uids[r.pod.UID] = true, true
		}
	}
	maps.DeleteFunc(l.uids, func(d string, _ types.UID) bool { return !digests[d] })
	maps.DeleteFunc(l.seen, func(u types.UID, _ string) bool { return !uids[u] })
}
