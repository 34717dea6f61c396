package podsync_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestBurst starts 90 pods at once, of which two that came last are critical. Half of
// them are ready when half of the time is over, and the critical ones among the first.
func TestBurst(t *testing.T) {
	t.Parallel()
	bubble(t, func(m *machine) {
		t := m.t
		for _, rpc := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
			m.Inject(rpc, runtimetest.Fault{Delay: 100 * time.Millisecond})
		}
		const pods, urgent, places = 90, 2, 6
		var mu sync.Mutex
		ready := map[string]time.Duration{}
		began := time.Now()
		a := m.agent(t, func(c *podsync.Config) {
			c.Limits.Starts = places
			inner := c.OnStatus
			c.OnStatus = func(pod *corev1.Pod, st corev1.PodStatus) {
				inner(pod, st)
				mu.Lock()
				defer mu.Unlock()
				if _, known := ready[pod.Name]; !known && condition(&st, corev1.PodReady) == "True " {
					ready[pod.Name] = time.Since(began)
				}
			}
		})
		priority := int32(2_000_000_000)
		for i := range pods {
			pod := newPod(fmt.Sprintf("pod%02d", i))
			pod.Annotations = nil
			if i >= pods-urgent {
				pod.Spec.Priority = &priority
			}
			a.add(pod)
		}
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		var times []time.Duration
		for _, at := range ready {
			times = append(times, at)
		}
		slices.Sort(times)
		if len(times) != pods {
			t.Fatalf("%d pods are ready, want %d", len(times), pods)
		}
		median, last := times[pods/2], times[pods-1]
		t.Logf("ready: median %s, last %s", median, last)
		if limit := last * 6 / 10; median > limit {
			t.Errorf("half of the pods are ready after %s, the last after %s: want half after %s", median, last, limit)
		}
		if want := time.Duration(pods/places) * 300 * time.Millisecond; last > want+time.Second {
			t.Errorf("the last pod is ready after %s, want some %s: the places are not used", last, want)
		}
		for i := pods - urgent; i < pods; i++ {
			if at := ready[fmt.Sprintf("pod%02d", i)]; at > times[2*places+urgent] {
				t.Errorf("critical pod %d is ready after %s, want it among the first", i, at)
			}
		}
	})
}
