package podstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstore"
)

// newPod returns a pod as a watch delivers it.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid " + name), ResourceVersion: "7",
			Labels:      map[string]string{"app": name},
			Annotations: map[string]string{"kubernetes.io/config.source": "api"},
		},
		Spec: corev1.PodSpec{
			NodeName:   "node-a",
			Containers: []corev1.Container{{Name: "app", Image: "img.example/app:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.244.1.7"},
	}
}

// open opens a store that has to be sound.
func open(t *testing.T, cfg podstore.Config) *podstore.Store {
	t.Helper()
	s, err := podstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recalled returns the names of the pods that a store has after a restart.
func recalled(t *testing.T, dir string) []string {
	t.Helper()
	return names(open(t, podstore.Config{Dir: dir}).Recall().Pods)
}

func names(pods []*corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}

func TestSpecsComeBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "store")
	s := open(t, podstore.Config{Dir: dir})
	if got := s.Recall(); len(got.Pods) != 0 || !got.Contact.IsZero() {
		t.Errorf("a new store has %+v", got)
	}
	web, db := newPod("web"), newPod("db")
	going := newPod("going")
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	going.DeletionTimestamp, going.DeletionGracePeriodSeconds = &now, new(int64(30))
	if err := s.Replace([]*corev1.Pod{web, db, going}); err != nil {
		t.Fatal(err)
	}
	got := open(t, podstore.Config{Dir: dir}).Recall().Pods
	var want []*corev1.Pod
	for _, pod := range []*corev1.Pod{db, going, web} {
		w := pod.DeepCopy()
		w.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		w.ResourceVersion, w.Status = "", corev1.PodStatus{}
		want = append(want, w)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory is %v, %v, want 0700", info.Mode(), err)
	}
}

// TestSetTakesThePlaceOfTheSet: pods that are gone, over, static or mirrors are not
// there.
func TestSetTakesThePlaceOfTheSet(t *testing.T) {
	dir := t.TempDir()
	s := open(t, podstore.Config{Dir: dir})
	over, static, mirror := newPod("over"), newPod("static"), newPod("mirror")
	over.Status.Phase = corev1.PodSucceeded
	static.Annotations["kubernetes.io/config.source"] = "file"
	mirror.Annotations[corev1.MirrorPodAnnotationKey] = "hash"
	for _, step := range []struct {
		set, want []*corev1.Pod
	}{
		{[]*corev1.Pod{newPod("web"), over, static, mirror}, []*corev1.Pod{newPod("web")}},
		{[]*corev1.Pod{newPod("db"), newPod("web")}, []*corev1.Pod{newPod("db"), newPod("web")}},
		{[]*corev1.Pod{newPod("db")}, []*corev1.Pod{newPod("db")}},
		{nil, nil},
	} {
		if err := s.Replace(step.set); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(names(step.want), recalled(t, dir)); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
	}
}

// TestUnchangedSetIsNotWritten, nor one in which only statuses changed.
func TestUnchangedSetIsNotWritten(t *testing.T) {
	writes := 0
	s, err := podstore.OpenWithStep(podstore.Config{Dir: t.TempDir()}, func(string) error { writes++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace([]*corev1.Pod{newPod("web")}); err != nil {
		t.Fatal(err)
	}
	writes = 0
	again := newPod("web")
	again.ResourceVersion, again.Status.Phase = "8", corev1.PodPending
	if err := s.Replace([]*corev1.Pod{again}); err != nil || writes != 0 {
		t.Errorf("%d changes of the disk, error %v, want none", writes, err)
	}
	again.Labels["app"] = "other"
	if err := s.Replace([]*corev1.Pod{again}); err != nil || writes == 0 {
		t.Errorf("%d changes of the disk, error %v, want some for other labels", writes, err)
	}
}

// TestPodThatHasEndedDoesNotComeBack, also while the API server still says it runs; a pod
// of a later life of that name does.
func TestPodThatHasEndedDoesNotComeBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, podstore.Config{Dir: dir})
	job := newPod("job")
	set := []*corev1.Pod{job, newPod("web")}
	for range 2 {
		if err := s.Replace(set); err != nil {
			t.Fatal(err)
		}
		if err := s.Ended(job.UID); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"web"}, recalled(t, dir)); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
	}
	if err := s.Replace(set[1:]); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(set); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"job", "web"}, recalled(t, dir)); diff != "" {
		t.Errorf("pods when it is named anew (-want +got):\n%s", diff)
	}
}

// TestContact: the time is kept once the set is that of the API server, and seldom
// written.
func TestContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, podstore.Config{Dir: dir})
		contact := func(s *podstore.Store, at time.Time) {
			t.Helper()
			if err := s.Contact(at); err != nil {
				t.Fatal(err)
			}
		}
		want := func(at time.Time) {
			t.Helper()
			if got := open(t, podstore.Config{Dir: dir}).Recall().Contact; !got.Equal(at) {
				t.Errorf("last contact is %s, want %s", got, at)
			}
		}
		start := time.Now()
		contact(s, start)
		want(time.Time{})
		if err := s.Replace([]*corev1.Pod{newPod("web")}); err != nil {
			t.Fatal(err)
		}
		contact(s, start)
		want(start)
		contact(s, start.Add(59*time.Second))
		want(start)
		contact(s, start.Add(time.Minute))
		want(start.Add(time.Minute))
		contact(s, start) // the clock was set back
		want(start)

		next := open(t, podstore.Config{Dir: dir})
		contact(next, start.Add(time.Hour))
		want(start) // its set may be old
	})
}

// TestDamagedEntries are reported, put aside and cost nobody else anything.
func TestDamagedEntries(t *testing.T) {
	good := podstore.EncodeFile([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"y","uid":"z"},"spec":{"containers":[{"name":"a"}]}}`))
	for _, tt := range []struct {
		name, file, content string
	}{
		{"empty", "pod-z", ""},
		{"zeroes", "pod-z", strings.Repeat("\x00", 4096)},
		{"cut off", "pod-z", string(good[:len(good)-5])},
		{"a bit", "pod-z", strings.Replace(string(good), `"name":"x"`, `"name":"w"`, 1)},
		{"longer", "pod-z", string(good) + "\n"},
		{"another pod's", "pod-other", string(good)},
		{"no pod", "pod-z", string(podstore.EncodeFile([]byte(`{"apiVersion":"v1","kind":"Node"}`)))},
		{"no name", "pod-z", string(podstore.EncodeFile([]byte(`{"apiVersion":"v1","kind":"Pod"}`)))},
		{"no containers", "pod-z", string(podstore.EncodeFile([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"y","uid":"z"}}`)))},
		{"no JSON", "pod-z", string(podstore.EncodeFile([]byte(`{`)))},
		{"no time", "contact", string(podstore.EncodeFile([]byte(`yesterday`)))},
		{"no object", "configmap-0", string(podstore.EncodeFile([]byte(`{}`)))},
		{"another object's", "configmap-0", string(podstore.EncodeFile([]byte(`{"name":"a","namespace":"b","configMap":{}}`)))},
		{"stranger", "README", string(good)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := open(t, podstore.Config{Dir: dir}).Replace([]*corev1.Pod{newPod("web")}); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := podstore.Open(podstore.Config{Dir: dir})
			if !errors.Is(err, podstore.ErrDamaged) || !strings.Contains(err.Error(), tt.file) || s == nil {
				t.Fatalf("store %v, error %v, want a store and an error that names %s", s, err, tt.file)
			}
			if diff := cmp.Diff([]string{"web"}, names(s.Recall().Pods)); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if kept, err := os.ReadFile(filepath.Join(dir, tt.file+".damaged")); err != nil || string(kept) != tt.content {
				t.Errorf("what was put aside is %q, %v", kept, err)
			}
			if diff := cmp.Diff([]string{"web"}, recalled(t, dir)); diff != "" {
				t.Errorf("pods at the next start, which has nothing to report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDirectoryInPlaceOfAFile and other oddities of the disk.
func TestDirectoryInPlaceOfAFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pod-x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := podstore.Open(podstore.Config{Dir: dir}); s == nil || err == nil || !strings.Contains(err.Error(), "pod-x") {
		t.Errorf("store %v, error %v, want a store and an error about pod-x", s, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := podstore.Open(podstore.Config{Dir: file}); s != nil || err == nil {
		t.Errorf("store %v, error %v, want no store in a file", s, err)
	}
}

// TestWriteThatFails is made up for by the next set.
func TestWriteThatFails(t *testing.T) {
	full := errors.New("no space left on device")
	var fails bool
	dir := t.TempDir()
	s, err := podstore.OpenWithStep(podstore.Config{Dir: dir}, func(what string) error {
		if fails && what == "write" {
			return full
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set := []*corev1.Pod{newPod("db"), newPod("web")}
	fails = true
	if err := s.Replace(set); !errors.Is(err, full) {
		t.Errorf("error %v, want that of the disk", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files %v, %v, want none left over", entries, err)
	}
	if err := s.Contact(time.Now()); err != nil {
		t.Errorf("error %v: nothing is written before a set is", err)
	}
	fails = false
	if err := s.Replace(set); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"db", "web"}, recalled(t, dir)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]podstore.Config{
		"podstore: Config.Dir is empty":           {},
		"podstore: Config.ContactEvery is -1ns":   {Dir: "x", ContactEvery: -1},
		"make the directory of the pod store: mk": {Dir: "/proc/no/such"},
	} {
		if _, err := podstore.Open(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestLongNames: what Kubernetes allows fits into a file name.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	s := open(t, podstore.Config{Dir: dir})
	pod := newPod(strings.Repeat("x", 253))
	pod.UID = types.UID(strings.Repeat("f", 200))
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: pod.Name},
	}}}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("n", 63), Name: pod.Name}}
	if err := errors.Join(s.Replace([]*corev1.Pod{pod}), s.KeepConfigMap(cm)); err != nil {
		t.Fatal(err)
	}
	if got := recalled(t, dir); !slices.Equal(got, []string{pod.Name}) {
		t.Errorf("pods %q", got)
	}
}
