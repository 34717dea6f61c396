package objects_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/objects"
)

// bench is a store that runs against a server in a bubble of fake time.
type bench struct {
	*server
	store *objects.Store

	mu      sync.Mutex // guards changed
	changed []string
}

func bubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{server: newServer(t)}
		var err error
		b.store, err = objects.New(objects.Config{ConfigMaps: b.configMaps, Secrets: b.secrets, Changed: b.note})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.store.Run(ctx) }()
		test(b)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if open := b.open(); len(open) > 0 {
			t.Errorf("watches after the end: %v", open)
		}
	})
}

func (b *bench) note(object volume.Object, pods []types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = append(b.changed, fmt.Sprintf("%s %s/%s %v", object.Kind, object.Namespace, object.Name, pods))
}

// news returns of what the store has told since it was last asked.
func (b *bench) news() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.changed
	b.changed = nil
	return out
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
	synctest.Wait()
}

// podOf returns a pod whose volumes are of ConfigMaps.
func podOf(uid types.UID, configMaps ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + string(uid), UID: uid}}
	for _, name := range configMaps {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}})
	}
	return pod
}

// value returns what a pod sees of its ConfigMap, or why it sees nothing.
func (b *bench) value(pod *corev1.Pod, name string) string {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	c, err := b.store.ConfigMap(ctx, pod, name)
	switch {
	case apierrors.IsNotFound(err):
		return "not found"
	case err != nil:
		return err.Error()
	case c.ManagedFields != nil:
		b.t.Error("managed fields are kept")
	}
	return c.Data["v"]
}

func (b *bench) want(pod *corev1.Pod, name, want string) {
	b.t.Helper()
	if got := b.value(pod, name); !strings.Contains(got, want) || want == "" && got != "" {
		b.t.Errorf("pod %s sees %q of %s, want %q", pod.UID, got, name, want)
	}
}

// wantCalls compares the calls so far.
func (b *bench) wantCalls(lists, watches int) {
	b.t.Helper()
	synctest.Wait()
	if l, w := b.calls(); l != lists || w != watches {
		b.t.Errorf("%d lists and %d watches, want %d and %d", l, w, lists, watches)
	}
}

func TestOneWatchForManyPods(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/conf", "1")
		first, second := podOf("a", "conf"), podOf("b", "conf")
		b.store.Use(first)
		b.want(first, "conf", "1")
		b.store.Use(second)
		b.want(second, "conf", "1")
		synctest.Wait()
		if diff := cmp.Diff([]string{"default/conf"}, b.open()); diff != "" {
			t.Errorf("watches (-want +got):\n%s", diff)
		}
		if news := b.news(); news != nil {
			t.Errorf("told of %v before anything changed", news)
		}
		b.set("default/conf", "2")
		if diff := cmp.Diff([]string{"configmap default/conf [a b]"}, b.news()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		b.want(first, "conf", "2")
		b.remove("default/conf")
		b.news()
		b.want(second, "conf", "not found")
		b.store.Release("a")
		synctest.Wait()
		if open := b.open(); len(open) != 1 {
			t.Errorf("watches with one pod left: %v", open)
		}
		b.want(first, "conf", "not registered")
		b.store.Release("b")
		synctest.Wait()
		if open := b.open(); len(open) != 0 {
			t.Errorf("watches without pods: %v", open)
		}
		b.store.Release("b")
	})
}

// TestNewPodSeesNothingOld has the watch miss a change: a pod that comes after it must
// see it all the same, and the others learn of it.
func TestNewPodSeesNothingOld(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/conf", "1")
		first := podOf("a", "conf")
		b.store.Use(first)
		b.want(first, "conf", "1")
		pass(time.Second)
		b.silence("default/conf", "2")
		b.want(first, "conf", "1")
		second := podOf("b", "conf")
		b.store.Use(second)
		b.want(second, "conf", "2")
		if diff := cmp.Diff([]string{"configmap default/conf [a b]"}, b.news()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		b.store.Use(second) // as at each sync
		b.store.Use(first)
		b.wantCalls(2, 2)
	})
}

func TestManyNewPodsShareAFewReads(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/conf", "1")
		b.delay = 100 * time.Millisecond // in which all of them come
		for i := range 100 {
			b.store.Use(podOf(types.UID(fmt.Sprint(i)), "conf"))
		}
		b.want(podOf("99", "conf"), "conf", "1")
		synctest.Wait()
		if lists, _ := b.calls(); lists > 2 {
			t.Errorf("%d lists for 100 pods that came at once, want 2 at most", lists)
		}
	})
}

func TestLastKnownWhileTheServerIsAway(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/conf", "1")
		first := podOf("a", "conf")
		b.store.Use(first)
		b.want(first, "conf", "1")
		b.fail(errors.New("connection refused"))
		pass(time.Hour)
		b.want(first, "conf", "1")
		second := podOf("b", "conf", "other")
		b.store.Use(second)
		b.want(second, "conf", "1")
		b.want(second, "other", "read configmap default/other: connection refused")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.store.Wait(ctx, "b"); err == nil || !strings.Contains(err.Error(), "wait for configmap default/other: connection refused") {
			t.Errorf("Wait says %v", err)
		}
		if lists, _ := b.calls(); lists > 3*3600/24 {
			t.Errorf("%d lists in an hour without a server", lists)
		}
		b.set("default/conf", "2")
		b.set("default/other", "1")
		b.fail(nil)
		pass(40 * time.Second)
		b.want(first, "conf", "2")
		b.want(second, "other", "1")
		if err := b.store.Wait(t.Context(), "b"); err != nil {
			t.Errorf("Wait says %v", err)
		}
		if diff := cmp.Diff(2, len(b.news())); diff != "" {
			t.Errorf("changes told (-want +got):\n%s", diff)
		}
	})
}

func TestImmutableObjectIsNotWatched(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.put("default/conf", "1", true)
		first := podOf("a", "conf")
		b.store.Use(first)
		b.want(first, "conf", "1")
		pass(time.Hour)
		b.wantCalls(1, 0)
		// Removed and made again under its name, it is another object.
		b.remove("default/conf")
		b.put("default/conf", "2", true)
		second := podOf("b", "conf")
		b.store.Use(second)
		b.want(second, "conf", "2")
		b.wantCalls(2, 0)
		// One that becomes immutable is read once more, then left alone.
		third := podOf("c", "late")
		b.set("default/late", "1")
		b.store.Use(third)
		b.want(third, "late", "1")
		b.put("default/late", "2", true)
		pass(time.Hour)
		b.want(third, "late", "2")
		if open := b.open(); len(open) != 0 {
			t.Errorf("watched: %v", open)
		}
	})
}

// TestWatchesEnd has watches end in every way: by themselves, by an expired version, by
// errors, with nonsense.
func TestWatchesEnd(t *testing.T) {
	tests := []struct {
		name string
		end  func(b *bench)
	}{
		{name: "in time", end: func(b *bench) { b.endWatches() }},
		{name: "expired", end: func(b *bench) {
			b.mu.Lock()
			b.expired = true
			b.mu.Unlock()
			b.endWatches()
		}},
		{name: "expired event", end: func(b *bench) {
			b.send(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old").ErrStatus})
		}},
		{name: "error event", end: func(b *bench) {
			b.send(watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(errors.New("broken")).ErrStatus})
		}},
		{name: "another object", end: func(b *bench) {
			b.send(watch.Event{Type: watch.Modified, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Data: map[string]string{"v": "foreign"}}})
		}},
		{name: "another kind", end: func(b *bench) {
			b.send(watch.Event{Type: watch.Modified, Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "conf"}}})
		}},
		{name: "no object", end: func(b *bench) { b.send(watch.Event{Type: watch.Modified, Object: &metav1.Status{}}) }},
		{name: "refused", end: func(b *bench) {
			b.mu.Lock()
			b.noWatch = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "conf", nil)
			b.mu.Unlock()
			b.endWatches()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				t := b.t
				b.set("default/conf", "1")
				pod := podOf("a", "conf")
				b.store.Use(pod)
				b.want(pod, "conf", "1")
				pass(time.Minute)
				b.send(watch.Event{Type: watch.Bookmark, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "150"}}})
				synctest.Wait()
				tt.end(b)
				synctest.Wait()
				b.set("default/conf", "2")
				pass(40 * time.Second)
				b.want(pod, "conf", "2")
				if diff := cmp.Diff([]string{"configmap default/conf [a]"}, b.news()); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
				if lists, watches := b.calls(); lists > 12 || watches > 12 {
					t.Errorf("%d lists and %d watches", lists, watches)
				}
			})
		})
	}
}

// TestPodIsBoundBeforeTheAuthorizerKnows has the first read refused for a moment, as by
// the Node authorizer.
func TestPodIsBoundBeforeTheAuthorizerKnows(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/conf", "1")
		b.fail(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "conf", errors.New("no relationship found")))
		pod := podOf("a", "conf")
		b.store.Use(pod)
		b.want(pod, "conf", "no relationship found")
		b.fail(nil)
		if err := b.store.Wait(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		b.want(pod, "conf", "1")
		// Who was told of the error hears that it is over.
		if diff := cmp.Diff([]string{"configmap default/conf [a]"}, b.news()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// TestPodsSeeTheirOwn keeps the objects of one pod from another one.
func TestPodsSeeTheirOwn(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/conf", "1")
		b.set("team/conf", "2")
		pod, stranger := podOf("a", "conf"), podOf("b")
		other := podOf("c", "conf")
		other.Namespace = "team"
		for _, p := range []*corev1.Pod{pod, stranger, other} {
			b.store.Use(p)
		}
		b.want(pod, "conf", "1")
		b.want(other, "conf", "2")
		b.want(stranger, "conf", `object "default"/"conf" not registered`)
		if _, err := b.store.Secret(t.Context(), pod, "conf"); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("the Secret of that name: %v, want that it is not registered", err)
		}
	})
}

func TestPodChangesWhatItRefersTo(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/old", "1")
		b.set("default/new", "2")
		pod := podOf("a", "old")
		b.store.Use(pod)
		b.want(pod, "old", "1")
		changed := podOf("a", "new")
		b.store.Use(changed)
		b.want(changed, "new", "2")
		b.want(changed, "old", "not registered")
		synctest.Wait()
		if diff := cmp.Diff([]string{"default/new"}, b.open()); diff != "" {
			t.Errorf("watches (-want +got):\n%s", diff)
		}
		// Whoever waits for a pod that goes is not left waiting.
		b.fail(errors.New("down"))
		waited := make(chan error, 1)
		b.store.Use(podOf("b", "third"))
		go func() { waited <- b.store.Wait(t.Context(), "b") }()
		synctest.Wait()
		b.store.Release("b")
		if err := <-waited; err != nil {
			t.Errorf("Wait for a pod that went: %v", err)
		}
	})
}

func TestSecret(t *testing.T) {
	bubble(t, func(b *bench) {
		t := b.t
		b.set("default/key", "1")
		pod := podOf("a")
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "key"}, {}}
		b.store.Use(pod)
		s, err := b.store.Secret(t.Context(), pod, "key")
		if err != nil || string(s.Data["v"]) != "1" {
			t.Errorf("secret %v, %v", s, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		later := podOf("b")
		later.Spec.ImagePullSecrets = pod.Spec.ImagePullSecrets
		b.fail(errors.New("down"))
		b.store.Use(later)
		if _, err := b.store.Secret(ctx, later, "key"); !errors.Is(err, context.Canceled) && err != nil {
			t.Errorf("an ended context: %v", err)
		}
	})
}

func TestNewNeedsClients(t *testing.T) {
	if _, err := objects.New(objects.Config{}); err == nil || !strings.Contains(err.Error(), "Config.ConfigMaps and Config.Secrets") {
		t.Errorf("New without clients: %v", err)
	}
}
