//go:build linux

package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestKernelLayout has the places that users, tests and a stock kubelet look at.
func TestKernelLayout(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setConfigMap("conf", map[string]string{"a": "1"})
	o.setSecret("key", map[string]string{"b": "2"})
	dir := root(t)
	m := newManager(t, volume.Config{Root: dir, Objects: &o})
	projected := corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "key"}}}
	p := pod("1",
		emptyDir("cache"), configMap("conf", "conf"), secret("key", "key"),
		source("ram", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
		source("info", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		}}),
		source("all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{projected}}}),
		source("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		source("image", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "example.com/data"}}),
		source("none", corev1.VolumeSource{}),
	)
	p.Spec.Volumes = append(p.Spec.Volumes, emptyDir("unused"))
	mounted, err := m.SetUp(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	volumes := filepath.Join(dir, "pods/1/volumes")
	want := map[string]volume.Mounted{
		"cache": {Path: volumes + "/kubernetes.io~empty-dir/cache", Relabel: true},
		"none":  {Path: volumes + "/kubernetes.io~empty-dir/none", Relabel: true},
		"ram":   {Path: volumes + "/kubernetes.io~empty-dir/ram", Relabel: true},
		"conf":  {Path: volumes + "/kubernetes.io~configmap/conf", Relabel: true, ReadOnly: true},
		"key":   {Path: volumes + "/kubernetes.io~secret/key", Relabel: true, ReadOnly: true},
		"info":  {Path: volumes + "/kubernetes.io~downward-api/info", Relabel: true, ReadOnly: true},
		"all":   {Path: volumes + "/kubernetes.io~projected/all", Relabel: true, ReadOnly: true},
		"host":  {Path: "/"},
	}
	if diff := cmp.Diff(want, mounted); diff != "" {
		t.Errorf("volumes (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"1", "1/plugins", "1/plugins/kubernetes.io~empty-dir",
		"1/plugins/kubernetes.io~empty-dir/cache", "1/plugins/kubernetes.io~empty-dir/cache/ready",
		"1/plugins/kubernetes.io~empty-dir/none", "1/plugins/kubernetes.io~empty-dir/none/ready",
		"1/plugins/kubernetes.io~empty-dir/ram", "1/plugins/kubernetes.io~empty-dir/ram/ready",
		"1/plugins/kubernetes.io~empty-dir/wrapped_all", "1/plugins/kubernetes.io~empty-dir/wrapped_all/ready",
		"1/plugins/kubernetes.io~empty-dir/wrapped_conf", "1/plugins/kubernetes.io~empty-dir/wrapped_conf/ready",
		"1/plugins/kubernetes.io~empty-dir/wrapped_info", "1/plugins/kubernetes.io~empty-dir/wrapped_info/ready",
		"1/plugins/kubernetes.io~empty-dir/wrapped_key", "1/plugins/kubernetes.io~empty-dir/wrapped_key/ready",
		"1/volumes", "1/volumes/kubernetes.io~configmap", "1/volumes/kubernetes.io~configmap/conf",
		"1/volumes/kubernetes.io~configmap/conf/..data", "1/volumes/kubernetes.io~configmap/conf/a",
		"1/volumes/kubernetes.io~downward-api", "1/volumes/kubernetes.io~downward-api/info",
		"1/volumes/kubernetes.io~downward-api/info/..data", "1/volumes/kubernetes.io~downward-api/info/name",
		"1/volumes/kubernetes.io~empty-dir", "1/volumes/kubernetes.io~empty-dir/cache",
		"1/volumes/kubernetes.io~empty-dir/none", "1/volumes/kubernetes.io~empty-dir/ram",
		"1/volumes/kubernetes.io~projected", "1/volumes/kubernetes.io~projected/all",
		"1/volumes/kubernetes.io~projected/all/..data", "1/volumes/kubernetes.io~projected/all/b",
		"1/volumes/kubernetes.io~secret", "1/volumes/kubernetes.io~secret/key",
		"1/volumes/kubernetes.io~secret/key/..data", "1/volumes/kubernetes.io~secret/key/b",
	}, tree(t, dir+"/pods")[1:]); diff != "" {
		t.Errorf("on disk (-want +got)\n%s", diff)
	}
	inMemory := mountsBelow(t, dir)
	if diff := cmp.Diff(map[string]bool{
		volumes + "/kubernetes.io~empty-dir/ram": true, volumes + "/kubernetes.io~secret/key": true,
		volumes + "/kubernetes.io~downward-api/info": true, volumes + "/kubernetes.io~projected/all": true,
	}, set(inMemory)); diff != "" || len(inMemory) != 4 {
		t.Errorf("in memory (-want +got)\n%s", diff)
	}
	if info, err := os.Stat(dir + "/pods/1"); err != nil || info.Mode() != os.ModeDir|0o750 {
		t.Errorf("the directory of the pod is %v (%v), want 0750", info.Mode(), err)
	}
	if m.Unmounted("1") {
		t.Error("the pod counts as unmounted")
	}
	if err := m.TearDown(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if !m.Unmounted("1") {
		t.Error("the pod does not count as unmounted")
	}
	if diff := cmp.Diff([]string{".", "1", "1/plugins", "1/plugins/kubernetes.io~empty-dir"}, tree(t, dir+"/pods")); diff != "" {
		t.Errorf("after all (-want +got)\n%s", diff)
	}
	if left := mountsBelow(t, dir); len(left) > 0 {
		t.Errorf("%v stay mounted", left)
	}
}

func set(list []string) map[string]bool {
	out := map[string]bool{}
	for _, e := range list {
		out[e] = true
	}
	return out
}
