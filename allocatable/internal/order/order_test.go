package order

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}, {Name: "late"}},
		Containers:     []corev1.Container{{Name: "app"}},
	}}
	type step struct {
		Name string
		Ends bool
	}
	var got []step
	for _, s := range Of(pod) {
		got = append(got, step{s.Name, s.Ends})
	}
	want := []step{{"init", true}, {"sidecar", false}, {"late", true}, {"app", false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
