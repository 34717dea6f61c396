package podspec_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// busy is a pod of five containers with variables, mounts, probes and limits.
func busy() *corev1.Pod {
	pod := web()
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}}}
	pod.Spec.Containers = nil
	for i := range 5 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "img.example/app:1", Command: []string{"/app"}, Args: []string{"--name=$(POD)"},
			Env: []corev1.EnvVar{
				{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "A", Value: "1"},
				{Name: "B", Value: "$(A)$(POD)"},
			},
			VolumeMounts:           []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "host", MountPath: "/host", ReadOnly: true}},
			Ports:                  []corev1.ContainerPort{{ContainerPort: 8080 + int32(i)}}, //nolint:gosec // small
			Resources:              corev1.ResourceRequirements{Requests: amounts("cpu", "100m", "memory", "64Mi"), Limits: amounts("cpu", "1", "memory", "128Mi")},
			TerminationMessagePath: corev1.TerminationMessagePathDefault,
			ReadinessProbe:         &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}},
		})
	}
	return pod
}

func BenchmarkCheck(b *testing.B) {
	pod := busy()
	b.ReportAllocs()
	for b.Loop() {
		if problems := podspec.Check(pod, podspec.Options{Can: podspec.Probes | podspec.Volumes}); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

func BenchmarkSandbox(b *testing.B) {
	pod, n := busy(), node()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := podspec.Sandbox(pod, n, podspec.SandboxRun{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkContainer(b *testing.B) {
	pod, n := busy(), node()
	run := podspec.Run{PodIPs: []string{"10.88.0.2"}, MessageFile: "01234567", ImageRef: "sha256:1", Volumes: map[string]podspec.Volume{"data": {Path: "/data"}, "host": {Path: "/srv"}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := podspec.Container(pod, &pod.Spec.Containers[0], n, run); err != nil {
			b.Fatal(err)
		}
	}
}
