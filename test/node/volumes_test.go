package node_test

import (
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// featuresOfParts are those that the agent has help for: mounts, groups, kernel
// parameters and control groups.
func featuresOfParts(a *agent) []feature {
	dir, volume := a.hostFolder("parts")
	if err := os.MkdirAll(dir+"/deep", 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/deep/file", []byte("a part"), 0o644); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Symlink("/etc", dir+"/out"); err != nil {
		a.t.Fatal(err)
	}
	part := func(sub string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{volume}
			mainOf(pod).VolumeMounts = []corev1.VolumeMount{{Name: volume.Name, MountPath: "/part", SubPath: sub}}
		}
	}
	return []feature{
		{name: "sub-path", args: []string{"-read", "/part"}, edit: part("deep/file"), want: prints("read a part")},
		{name: "sub-path-out", args: []string{"-read", "/part/hostname"}, edit: part("out"), want: waiting("CreateContainerConfigError")},
		{name: "memory", args: []string{"-write", "/m/file=x", "-read", "/proc/self/mountinfo"}, edit: func(pod *corev1.Pod) {
			size := resource.MustParse("1Mi")
			pod.Spec.Volumes = []corev1.Volume{{Name: "m", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}}}
			mainOf(pod).VolumeMounts = []corev1.VolumeMount{{Name: "m", MountPath: "/m"}}
		}, want: prints("/m rw", "size=1024k")},
		{name: "group", args: []string{"-write", "/g/file=x", "-read", "/proc/self/status"}, edit: func(pod *corev1.Pod) {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242)), RunAsUser: new(int64(1234))}
			pod.Spec.Volumes = []corev1.Volume{{Name: "g", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			mainOf(pod).VolumeMounts = []corev1.VolumeMount{{Name: "g", MountPath: "/g"}}
		}, want: prints("4242")},
		{name: "sysctl", args: []string{"-read", "/proc/sys/kernel/shm_rmid_forced"}, edit: func(pod *corev1.Pod) {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}}
		}, want: prints("read 1")},
		{name: "cgroup", args: []string{"-read", "/proc/self/cgroup"}, want: prints("/kubepods/besteffort/pod")},
	}
}
