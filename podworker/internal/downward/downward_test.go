package downward_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/internal/downward"
)

func TestMetadata(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "0-1",
		Labels:      map[string]string{"b": "2", "a": "1", "a.b/c": "x"},
		Annotations: map[string]string{"note": "two \"quoted\"\nlines\t\u00e9"},
	}}
	tests := []struct{ path, want, fails string }{
		{path: "metadata.name", want: "web"},
		{path: "metadata.namespace", want: "shop"},
		{path: "metadata.uid", want: "0-1"},
		{path: "metadata.labels", want: "a=\"1\"\na.b/c=\"x\"\nb=\"2\""},
		{path: "metadata.annotations", want: `note="two \"quoted\"\nlines\té"`},
		{path: "metadata.labels['a.b/c']", want: "x"},
		{path: "metadata.labels['none']", want: ""},
		{path: "metadata.annotations['note']", want: "two \"quoted\"\nlines\té"},
		{path: "metadata.name['x']", fails: "does not support a subscript"},
		{path: "metadata.labels['x'", fails: "is not supported"},
		{path: "spec.nodeName", fails: "is not supported"},
		{path: "", fails: "is not supported"},
	}
	for _, tt := range tests {
		got, err := downward.Metadata(pod, tt.path)
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s: error is %v, want %q", tt.path, err, tt.fails)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", tt.path, err, diff)
		}
	}
}

// TestResource: what variables show of resources is tested with podspec; this is how
// volumes ask, without a container of their own.
func TestResource(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "setup"}},
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "hugepages-2Mi": resource.MustParse("4Mi")},
		}}},
	}}
	node := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	tests := []struct{ container, resource, divisor, want, fails string }{
		{container: "app", resource: "limits.cpu", divisor: "1m", want: "1500"},
		{container: "app", resource: "limits.cpu", divisor: "0", want: "2"},
		{container: "app", resource: "limits.memory", divisor: "1Mi", want: "8192"},
		{container: "setup", resource: "limits.cpu", divisor: "1", want: "4"},
		{container: "app", resource: "limits.hugepages-2Mi", divisor: "2Mi", want: "2"},
		{container: "setup", resource: "limits.hugepages-2Mi", divisor: "2Mi", want: "0"},
		{container: "", resource: "limits.cpu", divisor: "1", fails: "container  not found"},
		{container: "none", resource: "limits.cpu", divisor: "1", fails: "container none not found"},
		{container: "app", resource: "limits.example.com/gpu", divisor: "1", fails: "unsupported container resource"},
		{container: "app", resource: "usage.cpu", divisor: "1", fails: "unsupported container resource"},
	}
	for _, tt := range tests {
		ref := &corev1.ResourceFieldSelector{ContainerName: tt.container, Resource: tt.resource, Divisor: resource.MustParse(tt.divisor)}
		got, err := downward.Resource(pod, nil, ref, node)
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s of %s: error is %v, want %q", tt.resource, tt.container, err, tt.fails)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%s of %s is %q (%v), want %q", tt.resource, tt.container, got, err, tt.want)
		}
	}
}

// FuzzMetadata: no path makes it fail in another way than with an error.
func FuzzMetadata(f *testing.F) {
	for _, path := range []string{"metadata.labels['app']", "metadata.labels", "metadata.annotations['a']b']", "['']", "metadata.labels['"} {
		f.Add(path, "app")
	}
	f.Fuzz(func(t *testing.T, path, key string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: "value"}}}
		got, err := downward.Metadata(pod, path)
		if err != nil && got != "" {
			t.Errorf("%q returns %q and the error %v", path, got, err)
		}
		if want, err := downward.Metadata(pod, "metadata.labels['"+key+"']"); !strings.Contains(key, "['") && (err != nil || want != "value") {
			t.Errorf("label %q is %q (%v)", key, want, err)
		}
	})
}
