package statuswriter

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPassersByLeaveNothing: a pod may come and go on the API server before the node has
// begun with it. Nobody forgets such a pod.
func TestPassersByLeaveNothing(t *testing.T) {
	w, err := Open(Config{Pods: func(string) Pods { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "brief", UID: "u1"}}
	w.Observe(pod, "")
	w.Gone(pod.UID)
	w.Observe(pod, "owner") // of the mirror of a static pod
	w.Gone(pod.UID)
	if len(w.entries)+len(w.mirrors) > 0 {
		t.Errorf("%d pods and %d mirrors are remembered, want none", len(w.entries), len(w.mirrors))
	}
}
