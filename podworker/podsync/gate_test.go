package podsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func plainPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// TestGateOrder lets eight pods through a gate with two places, each for a second.
func TestGateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		var mu sync.Mutex
		var order []string
		start := func(pod *corev1.Pod, turn *uint64) {
			leave, err := g.enter(t.Context(), pod, turn)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, pod.Name)
			mu.Unlock()
			<-time.After(time.Second)
			leave()
		}
		urgent := plainPod("urgent")
		priority := int32(criticalPriority)
		urgent.Spec.Priority = &priority
		for i := range 5 {
			turn := uint64(0)
			go start(plainPod(fmt.Sprint("pod", i)), &turn)
			synctest.Wait()
		}
		second := uint64(1) // the next step of a pod that came early
		go start(plainPod("step"), &second)
		synctest.Wait()
		turn := uint64(0)
		go start(urgent, &turn)
		<-time.After(time.Minute)
		synctest.Wait()
		// The first two find free places; what ends at the same time ends in any order.
		want := []string{"pod0", "pod1", "step", "urgent", "pod2", "pod3", "pod4"}
		slices.Sort(order[2:4])
		slices.Sort(order[4:6])
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if g.free != 2 {
			t.Errorf("%d places are free at the end, want 2", g.free)
		}
	})
}

// TestGateLendsPlaces has a pod that never comes to an end: it keeps nobody waiting for
// longer than placeFor.
func TestGateLendsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		var slow, next uint64
		leave, err := g.enter(t.Context(), plainPod("slow"), &slow)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		other, err := g.enter(t.Context(), plainPod("next"), &next)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != placeFor {
			t.Errorf("the next one waited %s, want %s", waited, placeFor)
		}
		other()
		leave()
		if g.free != 1 {
			t.Errorf("%d places are free, want 1: none twice", g.free)
		}
	})
}

func TestGateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		var a, b uint64
		leave, err := g.enter(t.Context(), plainPod("a"), &a)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.enter(ctx, plainPod("b"), &b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want that of the context", err)
		}
		leave()
		if g.free != 1 || len(g.queue) != 0 {
			t.Errorf("%d free and %d waiting, want 1 and none", g.free, len(g.queue))
		}
	})
}
