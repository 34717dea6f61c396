package podsource_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsource"
)

// delivered is what a Merger has delivered in a test in fake time.
type delivered struct {
	*podsource.Merger
	t *testing.T

	mu        sync.Mutex // guards the fields below
	last      podsource.Merged
	count     int
	conflicts []string
}

// merge starts a Merger of two sources, which ends with the test.
func merge(t *testing.T) *delivered {
	t.Helper()
	d := &delivered{t: t}
	m, err := podsource.NewMerger(podsource.MergerConfig{Conflict: func(c podsource.Conflict) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.conflicts = append(d.conflicts, c.String())
	}}, "file", podsource.API)
	if err != nil {
		t.Fatal(err)
	}
	d.Merger = m
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- m.Run(ctx, func(got podsource.Merged) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.last, d.count = got, d.count+1
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return d
}

// put hands in the set of a source.
func (d *delivered) put(source string, pods ...*corev1.Pod) {
	d.t.Helper()
	if err := d.Set(source, pods); err != nil {
		d.t.Fatal(err)
	}
	synctest.Wait()
}

// want fails the test unless the last delivery is this.
func (d *delivered) want(complete bool, pods ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var got []string
	for _, pod := range d.last.Pods {
		name := pod.Name
		if d.last.Recalled[pod.UID] {
			name += " recalled"
		}
		got = append(got, name)
	}
	if diff := cmp.Diff(pods, got); diff != "" {
		d.t.Errorf("pods (-want +got):\n%s", diff)
	}
	if d.last.Complete != complete {
		d.t.Errorf("complete is %t, want %t", d.last.Complete, complete)
	}
}

// TestNothingIsAbsentBeforeEverySourceWasHeard: a set is complete when each source has
// delivered once, also an empty set, whatever it delivers later.
func TestNothingIsAbsentBeforeEverySourceWasHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := merge(t)
		d.put("file", newPod("etcd"))
		d.want(false, "etcd")
		d.put("file")
		d.want(false)
		d.put(podsource.API)
		d.want(true)
		d.put(podsource.API, newPod("web"))
		d.put("file", newPod("etcd"))
		d.want(true, "etcd", "web")
		d.put(podsource.API)
		d.want(true, "etcd")
	})
}

// TestRecalledPodsStandIn for the source that is silent: they run, but nothing ends for
// their sake, and what the source says takes their place.
func TestRecalledPodsStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := merge(t)
		d.put("file", newPod("etcd"))
		if err := d.Recall(podsource.API, []*corev1.Pod{newPod("web"), newPod("old")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.want(false, "etcd", "web recalled", "old recalled")
		d.put(podsource.API, newPod("web"), newPod("new"))
		d.want(true, "etcd", "web", "new")
		if err := d.Recall(podsource.API, []*corev1.Pod{newPod("old")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.want(true, "etcd", "web", "new")
	})
}

// TestConflicts: of two pods with one name in a set the first runs, and of two with one
// UID that of the first source; each is told of once. Two sources may have pods of one
// name.
func TestConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := merge(t)
		twin := newPod("web")
		twin.UID = "uid-twin"
		for range 3 {
			d.put("file", newPod("web"), twin, newPod("db"))
		}
		d.want(false, "web", "db")
		same := newPod("other")
		same.UID = "uid-db"
		d.put(podsource.API, same, twin)
		d.want(true, "web", "db", "web")
		want := []string{
			`Error validating pod default/web from file due to duplicate pod name "web", ignoring`,
			`Error validating pod default/other from api due to the UID uid-db of pod default/db, ignoring`,
		}
		if diff := cmp.Diff(want, d.conflicts); diff != "" {
			t.Errorf("conflicts (-want +got):\n%s", diff)
		}
		d.put("file", newPod("web"))
		d.put("file", newPod("web"), twin)
		if got := len(d.conflicts); got != 3 {
			t.Errorf("%d conflicts were told, want one more as it came back", got)
		}
	})
}

// TestDeliveredSetsAreNotChanged: who hands a set in may use the slice again.
func TestDeliveredSetsAreNotChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := merge(t)
		set := []*corev1.Pod{newPod("web")}
		d.put(podsource.API, set...)
		set[0] = newPod("db")
		d.put("file")
		d.want(true, "web")
	})
}

func TestMergerIsChecked(t *testing.T) {
	for name, sources := range map[string][]string{"none": nil, "empty": {""}, "twice": {"file", "file"}} {
		t.Run(name, func(t *testing.T) {
			if _, err := podsource.NewMerger(podsource.MergerConfig{}, sources...); err == nil || !strings.HasPrefix(err.Error(), "podsource: NewMerger") {
				t.Errorf("error %v", err)
			}
		})
	}
	m, err := podsource.NewMerger(podsource.MergerConfig{}, "file")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set("http", nil); err == nil || !strings.Contains(err.Error(), `"http"`) {
		t.Errorf("error %v for a source that nobody waits for", err)
	}
}

// TestStatic: a pod of the API server, or one that does not say, is not static.
func TestStatic(t *testing.T) {
	for source, want := range map[string]bool{"": false, "api": false, "file": true, "http": true} {
		pod := &corev1.Pod{}
		pod.UID = types.UID("u")
		pod.Annotations = map[string]string{podsource.AnnotationSource: source}
		if got := podsource.IsStatic(pod); got != want {
			t.Errorf("source %q: static %t, want %t", source, got, want)
		}
	}
}
