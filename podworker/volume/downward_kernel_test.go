//go:build linux

package volume_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

func field(path, field string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}
}

func ofContainer(path, container, name string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: name}}
}

func downwardAPI(items ...corev1.DownwardAPIVolumeFile) corev1.Volume {
	return source("info", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}})
}

func TestKernelDownwardAPI(t *testing.T) {
	needsMounts(t)
	m := newManager(t, volume.Config{Allocatable: corev1.ResourceList{"memory": resource.MustParse("2Gi"), "cpu": resource.MustParse("3")}})
	p := pod("1", downwardAPI(
		field("pod/name", "metadata.name"), field("namespace", "metadata.namespace"), field("uid", "metadata.uid"),
		field("labels", "metadata.labels"), field("annotations", "metadata.annotations"),
		field("label", "metadata.labels['app.kubernetes.io/name']"), field("none", "metadata.annotations['none']"),
		ofContainer("cpu", "app", "limits.cpu"), ofContainer("memory", "app", "limits.memory"), ofContainer("request", "app", "requests.cpu"),
	))
	p.Labels = map[string]string{"b": "2", "app.kubernetes.io/name": "web"}
	p.Annotations = map[string]string{"quote": `say "hi"`, "lines": "1\n2"}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m")}, Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")},
	}
	want := map[string]string{
		"pod/name": "web-1", "namespace": "shop", "uid": "1", "label": "web", "none": "",
		"labels":      "app.kubernetes.io/name=\"web\"\nb=\"2\"",
		"annotations": `lines="1\n2"` + "\n" + `quote="say \"hi\""`,
		"cpu":         "2", "memory": "2147483648", "request": "1",
	}
	if diff := cmp.Diff(want, files(t, setUp(t, m, p)["info"])); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestKernelDownwardAPIFaults are told all at once.
func TestKernelDownwardAPIFaults(t *testing.T) {
	needsMounts(t)
	m := newManager(t, volume.Config{})
	err := attempt(t, m, pod("1", downwardAPI(
		field("a", "spec.nodeName"), ofContainer("b", "none", "limits.cpu"), ofContainer("c", "app", "limits.gpu"),
		corev1.DownwardAPIVolumeFile{Path: "d"}, field("good", "metadata.name"),
	)))
	for _, want := range []string{
		`file "a": field path "spec.nodeName" is not supported`, `file "b": container none not found`,
		`file "c": unsupported container resource : limits.gpu`, `file "d": neither fieldRef nor resourceFieldRef is set`,
	} {
		contains(t, err, want)
	}
}

// TestErrorsKeepTheirCause: callers can ask what is wrong.
func TestErrorsKeepTheirCause(t *testing.T) {
	var o objects
	err := attempt(t, newManager(t, volume.Config{Objects: &o}), pod("1", configMap("v", "none")))
	if !apierrors.IsNotFound(err) {
		t.Errorf("%v does not count as not found", err)
	}
}

// TestContainersOfAllKinds may be the only ones that mount a volume.
func TestContainersOfAllKinds(t *testing.T) {
	m := newManager(t, volume.Config{Providers: []volume.Provider{&provider{}}})
	p := pod("1")
	mounts := func(name string) []corev1.VolumeMount { return []corev1.VolumeMount{{Name: name, MountPath: "/v"}} }
	p.Spec.Volumes = []corev1.Volume{emptyDir("of-init"), emptyDir("of-debug"), emptyDir("of-none"), claim("device")}
	p.Spec.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: mounts("of-init"), VolumeDevices: []corev1.VolumeDevice{{Name: "device"}}}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: mounts("of-debug")}}}
	got := map[string]bool{}
	for name := range setUp(t, m, p) {
		got[name] = true
	}
	if diff := cmp.Diff(map[string]bool{"of-init": true, "of-debug": true, "device": true}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPlaceOfASubPathThatHoldsData is none: it is not removed.
func TestPlaceOfASubPathThatHoldsData(t *testing.T) {
	dir := root(t)
	m := newManager(t, volume.Config{Root: dir})
	setUp(t, m, pod("1", emptyDir("cache")))
	data := dir + "/pods/1/volume-subpaths/cache/app/0/data"
	write(t, data, "x")
	contains(t, m.TearDown(t.Context(), "1"), "remove "+data+": it is no place that something was bound to")
	if read(t, data) != "x" || m.Unmounted("1") {
		t.Error("it is gone, or counts as unmounted")
	}
}
