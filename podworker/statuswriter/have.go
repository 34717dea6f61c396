package statuswriter

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Have takes the UIDs of all pods of this node that the API server has, as a source that
// delivers whole sets knows them. A pod that is not among them is gone there, whenever
// something is told of it: one that was found in the runtime after it had been forgotten,
// or one in the journal that was removed while nobody looked. To ask the API server is no
// way to learn that: a node that asks for a pod that is none of its own any more is
// refused, as it would be for a while before one is known to be its own.
//
// Call it with each set, after Observe of its pods and before anything is set for them.
// Without it a Writer goes by [Writer.Gone] and by what the API server answers. Static pods
// are not concerned. The map must not change afterwards.
func (w *Writer) Have(uids map[types.UID]bool) {
	w.mu.Lock()
	w.have = uids
	var missing []types.UID
	for uid, e := range w.entries {
		if !e.gone && e.pod != nil && w.lacksLocked(e.pod) {
			missing = append(missing, uid)
		}
	}
	w.mu.Unlock()
	for _, uid := range missing {
		w.Gone(uid)
	}
}

// lacksLocked reports whether the API server is known to have no such pod.
func (w *Writer) lacksLocked(pod *corev1.Pod) bool {
	return w.have != nil && !w.have[pod.UID] && !isStatic(pod)
}
