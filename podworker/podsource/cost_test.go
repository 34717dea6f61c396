package podsource

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// some returns pods of these names, each an object of its own.
func some(names ...string) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(names))
	for _, name := range names {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}})
	}
	return pods
}

func mustSet(t *testing.T, m *Merger, source string, pods []*corev1.Pod) {
	t.Helper()
	if err := m.Set(source, pods); err != nil {
		t.Fatal(err)
	}
}

// TestAVersionCostsNoMoreThanItsPod: the other pods are not put together again.
func TestAVersionCostsNoMoreThanItsPod(t *testing.T) {
	m, err := NewMerger(MergerConfig{}, "file", API)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 500 {
		names = append(names, strconv.Itoa(i))
	}
	pods := some(names...)
	mustSet(t, m, "file", some("etcd"))
	mustSet(t, m, API, pods)
	m.merge()
	i := 0
	if n := testing.AllocsPerRun(20, func() {
		i++
		version := *pods[i]
		pods[i] = &version
		mustSet(t, m, API, pods)
		m.merge()
	}); n > 20 {
		t.Errorf("%v allocations for one pod of 500, want some that belong to the one", n)
	}
}

// TestVersionsAreMergedAsAnew: whatever the sources say one after the other, a Merger that
// has merged before has the same pods as one that has not.
func TestVersionsAreMergedAsAnew(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	m, err := NewMerger(MergerConfig{}, "file", API)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]*corev1.Pod{}
	for range 2000 {
		source := []string{"file", API}[random.IntN(2)]
		pods := slices.Clone(said[source])
		switch i := random.IntN(len(pods) + 3); {
		case i < len(pods) && random.IntN(4) > 0: // a new version
			version := *pods[i]
			pods[i] = &version
		case i < len(pods):
			pods = slices.Delete(pods, i, i+1)
		case len(pods) < 6: // conflicts are among them
			pods = append(pods, some(strconv.Itoa(random.IntN(12)))...)
		}
		said[source] = pods
		fresh, err := NewMerger(MergerConfig{}, "file", API)
		if err != nil {
			t.Fatal(err)
		}
		for name, pods := range said {
			mustSet(t, fresh, name, pods)
		}
		mustSet(t, m, source, pods)
		got, _ := m.merge()
		want, _ := fresh.merge()
		if !slices.Equal(got.Pods, want.Pods) || got.Complete != want.Complete || !slices.Equal(got.Silent, want.Silent) {
			t.Fatalf("merged %+v, want %+v", got, want)
		}
	}
}

// TestOrderedStaysInOrder as pods come and go.
func TestOrderedStaysInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var o ordered
	known := map[types.UID]*corev1.Pod{}
	for range 1000 {
		pod := some(strconv.Itoa(random.IntN(30)))[0]
		pod.CreationTimestamp = metav1.NewTime(time.Unix(random.Int64N(10), 0))
		if old := known[pod.UID]; old != nil {
			o.remove(old)
			delete(known, pod.UID)
		}
		if random.IntN(3) > 0 {
			o.add(pod)
			known[pod.UID] = pod
		}
		if len(o) != len(known) || !slices.IsSortedFunc(o, byAge) {
			t.Fatalf("%d pods, in order %t; want %d in order", len(o), slices.IsSortedFunc(o, byAge), len(known))
		}
	}
	var want []*corev1.Pod
	for _, pod := range known {
		want = append(want, pod)
	}
	slices.SortFunc(want, byAge)
	if diff := cmp.Diff(want, []*corev1.Pod(o)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}
