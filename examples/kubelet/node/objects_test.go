package node

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/staticpods"
)

// TestLocalObjectsAreForManifestsOnly has a ConfigMap and a Secret among the manifests: the
// pods of manifests see them in their namespace, and nobody else does.
func TestLocalObjectsAreForManifestsOnly(t *testing.T) {
	o, err := newObjects(&Node{}, func(volume.Object, []types.UID) {})
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x"}
	o.replace(staticpods.Set{
		ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: meta, Data: map[string]string{"k": "v"}}},
		Secrets:    []*corev1.Secret{{ObjectMeta: meta, Data: map[string][]byte{"k": []byte("s")}}},
	})
	pod := func(namespace, source string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{staticpods.AnnotationSource: source}}}
	}
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"of a manifest", pod("default", "file"), true},
		{"of a manifest in another namespace", pod("team", "file"), false},
		{"of the API", pod("default", "api"), false},
		{"without a source", pod("default", ""), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err1 := o.ConfigMap(t.Context(), tt.pod, "x")
			s, err2 := o.of(t.Context(), tt.pod).Secret(tt.pod.Namespace, "x")
			if tt.want && (err1 != nil || err2 != nil || c.Data["k"] != "v" || string(s.Data["k"]) != "s") {
				t.Errorf("ConfigMap %v (%v), Secret %v (%v)", c, err1, s, err2)
			}
			if !tt.want && (!apierrors.IsNotFound(err1) || !apierrors.IsNotFound(err2)) {
				t.Errorf("errors %v and %v, want that there is none", err1, err2)
			}
		})
	}
}

// TestChangedLocalObjectsAreTold names the pods that refer to what has changed, come or
// gone, and nothing else.
func TestChangedLocalObjectsAreTold(t *testing.T) {
	var told []string
	o, err := newObjects(&Node{}, func(name volume.Object, pods []types.UID) {
		told = append(told, fmt.Sprintf("%s %s %v", name.Kind, name.Name, pods))
	})
	if err != nil {
		t.Fatal(err)
	}
	conf := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"k": value}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u1"}}
	pod.Spec.Containers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}},
	}}}
	set := func(list ...*corev1.ConfigMap) []string {
		told = nil
		o.replace(staticpods.Set{Pods: []*corev1.Pod{pod}, ConfigMaps: list})
		return told
	}
	for _, step := range []struct {
		name string
		list []*corev1.ConfigMap
		want []string
	}{
		{"comes", []*corev1.ConfigMap{conf("a", "1")}, []string{"configmap a [u1]"}},
		{"stays", []*corev1.ConfigMap{conf("a", "1")}, nil},
		{"changes, and one that nobody wants", []*corev1.ConfigMap{conf("a", "2"), conf("b", "1")}, []string{"configmap a [u1]", "configmap b []"}},
		{"goes", []*corev1.ConfigMap{conf("b", "1")}, []string{"configmap a [u1]"}},
	} {
		got := set(step.list...)
		if len(got) == 2 && got[0] > got[1] {
			got[0], got[1] = got[1], got[0]
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
