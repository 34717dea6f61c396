package proxier_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// Changes count until they are in force, and what changes nothing does not count.
func TestStatusCountsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{})
		feed := r.Feed("objects")
		expect := func(when string, services, slices int) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(proxier.Changes{Services: services, EndpointSlices: slices}, r.Status().Pending); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		feed.SetService(clusterService(1))
		feed.SetService(clusterService(2))
		feed.SetEndpointSlice(sliceOf(1, "10.244.0.1"))
		expect("before the start", 2, 1)
		feed.Synced()
		r.start(t)
		pass(time.Second)
		expect("in force", 0, 0)
		feed.SetService(clusterService(1))
		headless := clusterService(3)
		headless.Spec.ClusterIP = corev1.ClusterIPNone
		feed.SetService(headless)
		expect("nothing new", 0, 0)
		hang := make(chan error)
		r.backend.Fail(func(proxiertest.Call) error { return <-hang })
		feed.SetService(clusterService(4))
		expect("while the backend works", 1, 0)
		feed.SetEndpointSlice(sliceOf(2, "10.244.0.2"))
		expect("one more comes meanwhile", 1, 1)
		hang <- errors.New("no")
		pass(time.Millisecond)
		expect("the round has failed", 1, 1)
		pass(time.Second)
		feed.SetService(clusterService(5))
		expect("it is tried again", 2, 1)
		r.backend.Fail(nil)
		hang <- nil
		pass(time.Minute)
		expect("in the end", 0, 0)
	})
}

// A time for each change is kept while nothing can be programmed, but not without a bound.
func TestTriggersAreBounded(t *testing.T) {
	const bound = 1 << 12
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{})
		feed := r.Feed("objects")
		feed.SetService(clusterService(1))
		feed.Synced()
		r.start(t)
		pass(time.Second)
		r.backend.Fail(func(proxiertest.Call) error { return errors.New("no") })
		for range 3 {
			for n := range bound {
				es := sliceOf(1, []string{"10.244.0.1", "10.244.0.2"}[n%2])
				es.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
				feed.SetEndpointSlice(es)
			}
			pass(time.Minute)
		}
		if n := len(r.lastRound().Triggers); n != bound {
			t.Errorf("%d triggers are kept, want %d", n, bound)
		}
	})
}
