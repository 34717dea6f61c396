package node

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsource"
)

// echoes are the deliveries of a node of 500 pods in which one pod has a new version that
// means what the old one does, as when the API server shows a status that this node has
// written.
type echoes struct {
	catalog *catalog
	set     podsource.Merged
	sent    int
}

func newEchoes() *echoes {
	e := &echoes{catalog: newCatalog(), set: podsource.Merged{Complete: true}}
	for i := range 500 {
		e.set.Pods = append(e.set.Pods, podOf("pod-"+strconv.Itoa(i)))
	}
	e.catalog.replace(e.set)
	return e
}

// next delivers once more and returns the pods that have changed.
func (e *echoes) next() []*corev1.Pod {
	i := e.sent % len(e.set.Pods)
	e.sent++
	pod := *e.set.Pods[i]
	pod.ResourceVersion = strconv.Itoa(e.sent)
	e.set.Pods = slices.Clone(e.set.Pods)
	e.set.Pods[i] = &pod
	return e.catalog.replace(e.set)
}

func BenchmarkReplaceOneOf500(b *testing.B) {
	e := newEchoes()
	b.ReportAllocs()
	for b.Loop() {
		if changed := e.next(); len(changed) != 0 {
			b.Fatalf("%d pods have changed, want none", len(changed))
		}
	}
}

// TestAnEchoCostsNoMoreThanItsPod: the pods that are as they were are not looked into.
func TestAnEchoCostsNoMoreThanItsPod(t *testing.T) {
	e := newEchoes()
	if n := testing.AllocsPerRun(20, func() { e.next() }); n > 100 {
		t.Errorf("%v allocations for one pod of 500, want some that belong to the one", n)
	}
}

// TestReplaceKeepsVersions: what a set without new pods says counts as much as one with.
func TestReplaceKeepsVersions(t *testing.T) {
	c := newCatalog()
	a, b := podOf("a"), podOf("b")
	c.replace(podsource.Merged{Complete: true, Pods: []*corev1.Pod{a, b, podOf("old")}})
	c.replace(podsource.Merged{Complete: true, Pods: []*corev1.Pod{a, b}})
	if _, gone := c.gonePod("uid-old"); !gone {
		t.Error("a pod that the set does not name any more is not among the pods that have gone")
	}
	same, labelled := *a, *b
	same.ResourceVersion = "2"
	labelled.Labels = map[string]string{"app": "other"}
	changed := c.replace(podsource.Merged{Complete: true, Pods: []*corev1.Pod{&same, &labelled}})
	if diff := cmp.Diff([]*corev1.Pod{&labelled}, changed); diff != "" {
		t.Errorf("changed pods (-want +got):\n%s", diff)
	}
	for uid, want := range map[types.UID]*corev1.Pod{a.UID: &same, b.UID: &labelled} {
		if got, ok := c.pod(uid); !ok || got != want {
			t.Errorf("pod %s is not the version of the last set", uid)
		}
	}
	if _, gone := c.gonePod("uid-old"); gone {
		t.Error("a pod is among those that have gone since the set before the last")
	}
	c.replace(podsource.Merged{Complete: true, Pods: []*corev1.Pod{&same}})
	if _, ok := c.pod(b.UID); ok || c.wants(b.UID) {
		t.Error("a pod has to run that the set does not name")
	}
}

// podOf returns a pod of the size that pods have.
func podOf(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID("uid-"+name)
	pod.Labels = map[string]string{"app": name, "pod-template-hash": "5d4f8c7b9"}
	for _, c := range []string{"app", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: c, Image: "registry.example/" + c + ":1",
			Env:          []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		})
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue})
	}
	return pod
}
