package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/staticpods"
)

// manifestName is what the pods of two versions of one manifest have in common.
type manifestName struct{ source, namespace, name string }

func manifestNameOf(pod *corev1.Pod) manifestName {
	return manifestName{pod.Annotations[staticpods.AnnotationSource], pod.Namespace, pod.Name}
}

// unwanted reports whether a pod must not run any more. Before all sources have delivered
// nothing is unwanted for its absence, but one whose manifest has another pod by now is: its
// successor waits for its end. A stock kubelet has that wait for the API server, which may be
// the very pod whose manifest was mended, or, after a restart, runs both.
func (c *catalog) unwanted(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unwantedLocked(pod)
}

func (c *catalog) unwantedLocked(pod *corev1.Pod) bool {
	if c.pods[pod.UID] != nil {
		return false
	}
	return !c.heard.IsZero() || ofManifest(pod) && c.manifest[manifestNameOf(pod)]
}

// succeeded returns the pods of earlier sets that have a successor.
func (c *catalog) succeeded() []*corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var old []*corev1.Pod
	for _, pod := range c.gone {
		if c.unwantedLocked(pod) {
			old = append(old, pod)
		}
	}
	return old
}

// succeed ends the pods of manifests that have another pod by now, and has those start anew
// that have changed after their end, while the whole set is not known yet.
func (a *agent) succeed(changed []*corev1.Pod) {
	a.collect(a.snapshot.Load())
	for _, pod := range a.catalog.succeeded() {
		s, known := a.pool.State(pod.UID)
		if !known {
			continue
		}
		a.pool.Vanish(pod.UID)
		if s.Done() { // the pool just forgets it; what is left of it has to go, too
			a.pool.TerminateOrphan(pod, podworker.Termination{Grace: podworker.MinGrace})
		}
	}
	for _, pod := range changed {
		if s, known := a.pool.State(pod.UID); known && s.Done() && ofManifest(pod) {
			a.pool.Vanish(pod.UID)
		}
	}
}
