package node_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/nodekit-go/nodekit/podworker/events"
)

// handClock is a clock that is set by hand.
type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time                  { return c.now }
func (c *handClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// told is what becomes of an event.
type told struct {
	Skip    bool
	Count   int32
	First   time.Time
	Name    string
	Message string
}

// TestEventsAreCountedAsClientGoDoes hands the same random events to both correlators.
// Names of events that stand for several are each one's own.
func TestEventsAreCountedAsClientGoDoes(t *testing.T) {
	for seed := range uint64(20) {
		clock := &handClock{now: time.Unix(1_000_000, 0)}
		theirs, ours := record.NewEventCorrelator(clock), events.NewCorrelator()
		r := rand.New(rand.NewPCG(seed, 7))
		combined := map[string]string{}
		for i := range 600 {
			clock.now = clock.now.Add([]time.Duration{0, time.Second, time.Minute, 11 * time.Minute}[r.IntN(4)*r.IntN(2)])
			e := randomEvent(r, clock.now, i)
			theirResult, err := theirs.EventCorrelate(e.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			ourEvent, verdict := ours.Correlate(e, clock.now)
			want, got := told{Skip: theirResult.Skip}, told{Skip: verdict == events.Drop}
			if !theirResult.Skip {
				want = toldOf(theirResult.Event)
			}
			if ourEvent != nil {
				got = toldOf(ourEvent)
			}
			if want.Message != e.Message && got.Message == want.Message {
				if before, ok := combined[want.Name]; ok && before != got.Name {
					t.Fatalf("seed %d, event %d: one event of theirs is %s and %s of ours", seed, i, before, got.Name)
				}
				combined[want.Name], want.Name = got.Name, got.Name
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, event %d, %s (-client-go +ours):\n%s", seed, i, e.Message, diff)
			}
		}
	}
}

func toldOf(e *corev1.Event) told {
	return told{Count: e.Count, First: e.FirstTimestamp.Time, Name: e.Name, Message: e.Message}
}

// randomEvent is about one of few pods, with one of few reasons and messages.
func randomEvent(r *rand.Rand, now time.Time, i int) *corev1.Event {
	pod := newPod(fmt.Sprint("pod", r.IntN(2)))
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("e%d", i)},
		InvolvedObject: events.OfPod(pod, []string{"", "app"}[r.IntN(2)]),
		Type:           []string{corev1.EventTypeNormal, corev1.EventTypeWarning}[r.IntN(2)],
		Reason:         []string{"Started", "BackOff"}[r.IntN(2)],
		Message:        fmt.Sprint("message ", r.IntN(14)),
		Count:          1, FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: "kubelet", Host: "node-a"}, ReportingController: "kubelet", ReportingInstance: "node-a",
	}
}
