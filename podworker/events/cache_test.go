package events

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestCorrelatorForgetsWhatIsOfNoUse: a node has thousands of pods in its life. What decides
// nothing any more is not kept until there is no more room.
func TestCorrelatorForgetsWhatIsOfNoUse(t *testing.T) {
	c, now := NewCorrelator(), time.Unix(0, 0)
	about := func(pod string) *corev1.Event {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod}, Reason: "Started", Message: "started", Count: 1}
	}
	for i := range 100 {
		c.Correlate(about(fmt.Sprint("pod-", i)), now)
	}
	sizes := func() [3]int { return [3]int{c.seen.order.Len(), c.similar.order.Len(), c.budgets.order.Len()} }
	if got, want := sizes(), [3]int{100, 100, 100}; got != want {
		t.Errorf("at once %v events, groups and budgets are kept, want %v", got, want)
	}
	now = now.Add(similarFor + time.Second) // Budgets have filled up twice.
	if _, verdict := c.Correlate(about("pod-0"), now); verdict != Update {
		t.Errorf("the same event is %d, want an update", verdict)
	}
	if got, want := sizes(), [3]int{100, 1, 1}; got != want {
		t.Errorf("later %v events, groups and budgets are kept, want %v", got, want)
	}
	for _, c := range []int{len(c.seen.at) - 100, len(c.similar.at) - 1, len(c.budgets.at) - 1} {
		if c != 0 {
			t.Errorf("%d keys more than values", c)
		}
	}
}
