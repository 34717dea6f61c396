package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// TestExtraComesBeforeTheSpec gives a container variables, mounts, devices and
// annotations of the node, some of which it has itself.
func TestExtraComesBeforeTheSpec(t *testing.T) {
	pod := web(onApp(func(c *corev1.Container) {
		c.Env = []corev1.EnvVar{{Name: "GPU", Value: "mine"}}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/disk"}}
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	}))
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	extra := podspec.Extra{
		Envs:        []*runtimeapi.KeyValue{{Key: "GPU", Value: []byte("0")}},
		Mounts:      []*runtimeapi.Mount{{ContainerPath: "/usr/lib/gpu", HostPath: "/opt/gpu", Readonly: true}},
		Devices:     []*runtimeapi.Device{{ContainerPath: "/dev/gpu", HostPath: "/dev/gpu0", Permissions: "rw"}},
		CDIDevices:  []*runtimeapi.CDIDevice{{Name: "example.com/gpu=0"}},
		Annotations: map[string]string{"example.com/note": "x", podspec.AnnotationRestartCount: "99"},
		CPUs:        "2-3", MemoryNodes: "1", NoCPUQuota: true,
	}
	volumes := map[string]podspec.Volume{"v": {Path: "/pods/v"}, "disk": {Path: "/pods/disk", Block: true}}
	got := config(t, pod, node(), podspec.Run{Volumes: volumes, Extra: extra}).Config
	envs := map[string][]string{}
	for _, kv := range got.GetEnvs() {
		envs[kv.GetKey()] = append(envs[kv.GetKey()], string(kv.GetValue()))
	}
	if diff := cmp.Diff([]string{"0", "mine"}, envs["GPU"]); diff != "" {
		t.Errorf("values of GPU, of which the last counts (-want +got):\n%s", diff)
	}
	if first := got.GetMounts()[0]; first.GetContainerPath() != "/usr/lib/gpu" || len(got.GetMounts()) < 2 {
		t.Errorf("mounts are %v, want that of the node before that of the volume", got.GetMounts())
	}
	devices := []*runtimeapi.Device{extra.Devices[0], {ContainerPath: "/dev/disk", HostPath: "/pods/disk", Permissions: "mrw"}}
	if diff := cmp.Diff(devices, got.GetDevices(), protocmp.Transform()); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(extra.CDIDevices, got.GetCDIDevices(), protocmp.Transform()); diff != "" {
		t.Errorf("CDI devices (-want +got):\n%s", diff)
	}
	if a := got.GetAnnotations(); a["example.com/note"] != "x" || a[podspec.AnnotationRestartCount] != "0" {
		t.Errorf("annotations are %v, want the note, and the agent's own count", a)
	}
	r := got.GetLinux().GetResources()
	if r.GetCpusetCpus() != "2-3" || r.GetCpusetMems() != "1" || r.GetCpuQuota() != 0 || r.GetCpuPeriod() != 0 {
		t.Errorf("resources are %v, want CPUs 2-3 of node 1 without a quota", r)
	}
}
