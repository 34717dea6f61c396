package podsource

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ordered are pods by their creation, the oldest first. It stays in order while pods come
// and go, so that a new version of one does not have all of them sorted.
type ordered []*corev1.Pod

// add takes a pod that is not in it.
func (o *ordered) add(pod *corev1.Pod) {
	i, _ := slices.BinarySearchFunc(*o, pod, byAge)
	*o = slices.Insert(*o, i, pod)
}

// remove drops a pod that is in it.
func (o *ordered) remove(pod *corev1.Pod) {
	if i, found := slices.BinarySearchFunc(*o, pod, byAge); found {
		*o = slices.Delete(*o, i, i+1)
	}
}

// byAge orders pods by their creation, the oldest first.
func byAge(a, b *corev1.Pod) int {
	if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
		return order
	}
	return strings.Compare(string(a.UID), string(b.UID))
}
