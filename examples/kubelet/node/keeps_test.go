package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podsource"
)

// TestWhoKeepsWhatItWasGiven: a pod that was admitted and has no worker yet does.
func TestWhoKeepsWhatItWasGiven(t *testing.T) {
	pool, err := podworker.New(cleaner{}, podworker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool.Retain(func(func(types.UID) bool) {}) // the sources have been seen
	a := &agent{catalog: newCatalog(), pool: pool}
	pod := &corev1.Pod{}
	pod.UID = "wanted"
	a.catalog.replace(podsource.Merged{Pods: []*corev1.Pod{pod}, Complete: true})
	if s, known := pool.State("wanted"); known || !s.Done() {
		t.Fatalf("the pool knows the pod, or takes it for one that may come: %v", s)
	}
	for uid, want := range map[types.UID]bool{"wanted": true, "gone": false} {
		if got := a.keeps(uid); got != want {
			t.Errorf("pod %s keeps what it has: %v, want %v", uid, got, want)
		}
	}
}
