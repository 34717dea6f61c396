package podstore_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstore"
)

var errKilled = errors.New("killed")

// TestCrashAtEveryWrite ends the process before each single change of the directory, and
// in the middle of each write. Whatever the point, the next process finds each pod either
// as it was before or as it has become, reports nothing as damaged, and what is left over
// of the write is gone.
func TestCrashAtEveryWrite(t *testing.T) {
	before := []*corev1.Pod{version("gone", 1), version("changed", 1), version("same", 1)}
	after := []*corev1.Pod{version("changed", 2), version("same", 1), version("new", 1)}
	ends := 0
	for point := 0; ; point++ {
		dir := t.TempDir()
		s := open(t, podstore.Config{Dir: dir, ContactEvery: time.Nanosecond})
		first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := errors.Join(s.Replace(before), s.Contact(first)); err != nil {
			t.Fatal(err)
		}
		calls := 0
		s, err := podstore.OpenWithStep(podstore.Config{Dir: dir, ContactEvery: time.Nanosecond}, func(string) error {
			if calls++; calls > point {
				return errKilled // and nothing is done ever after
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		last := first.Add(time.Hour)
		done := errors.Join(s.Replace(after), s.Ended(after[1].UID), s.Contact(last))
		if done != nil && !errors.Is(done, errKilled) {
			t.Fatal(done)
		}
		found := open(t, podstore.Config{Dir: dir}).Recall()
		checkPods(t, point, found.Pods, done == nil)
		if got := found.Contact; !got.Equal(first) && !got.Equal(last) || done == nil && !got.Equal(last) {
			t.Errorf("point %d: last contact is %s", point, got)
		}
		checkFiles(t, point, dir)
		if done == nil {
			break
		}
		ends++
	}
	if ends < 15 {
		t.Errorf("the process ended at %d points only, some changes go past the test", ends)
	}
}

// version returns a pod whose version can be told.
func version(name string, n int) *corev1.Pod {
	pod := newPod(name)
	pod.Labels["version"] = fmt.Sprint(n)
	return pod
}

// checkPods wants each pod in one of the versions that it had.
func checkPods(t *testing.T, point int, pods []*corev1.Pod, done bool) {
	t.Helper()
	var got []string
	for _, pod := range pods {
		got = append(got, pod.Name+pod.Labels["version"])
	}
	legal := []string{"changed1", "changed2", "gone1", "new1", "same1"}
	for _, g := range got {
		if !slices.Contains(legal, g) {
			t.Errorf("point %d: pod %s", point, g)
		}
	}
	if !slices.Contains(got, "changed1") && !slices.Contains(got, "changed2") {
		t.Errorf("point %d: pods %q, the one that changes is lost", point, got)
	}
	// Pods leave before others come.
	if slices.Contains(got, "gone1") && (slices.Contains(got, "new1") || slices.Contains(got, "changed2")) {
		t.Errorf("point %d: pods %q, the one that is gone outlives the news", point, got)
	}
	if done && !slices.Equal(got, []string{"changed2", "new1"}) {
		t.Errorf("in the end the pods are %q", got)
	}
}

// checkFiles wants nothing of a write that was cut off.
func checkFiles(t *testing.T, point int, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), ".damaged") {
			t.Errorf("point %d: left over is %s", point, e.Name())
		}
	}
}
