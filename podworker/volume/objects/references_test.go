package objects_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/objects"
)

func ref(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestReferences(t *testing.T) {
	pod := podOf("a", "vol")
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{ref("pull"), ref("")}
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vol-secret"}}},
		corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: new(ref("csi"))}}},
		corev1.Volume{Name: "e", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}},
		corev1.Volume{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("projected")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: ref("projected-secret")}},
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("bundle")}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}},
	)
	env := func(name string) ([]corev1.EnvFromSource, []corev1.EnvVar) {
		from := []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("from-" + name)}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("from-" + name + "-secret")}},
		}
		return from, []corev1.EnvVar{
			{Name: "PLAIN", Value: "x"},
			{Name: "FIELD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("vol")}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("env-" + name)}}},
		}
	}
	var init, main corev1.Container
	init.EnvFrom, init.Env = env("init")
	main.EnvFrom, main.Env = env("main")
	var debug corev1.EphemeralContainer
	debug.EnvFrom, debug.Env = env("debug")
	pod.Spec.InitContainers, pod.Spec.Containers, pod.Spec.EphemeralContainers = []corev1.Container{init}, []corev1.Container{main}, []corev1.EphemeralContainer{debug}

	var want []volume.Object
	for _, name := range []string{"from-debug", "from-init", "from-main", "projected", "vol"} {
		want = append(want, volume.Object{Kind: volume.ConfigMaps, Namespace: "default", Name: name})
	}
	for _, name := range []string{
		"csi", "env-debug", "env-init", "env-main", "from-debug-secret", "from-init-secret", "from-main-secret", "projected-secret", "pull", "vol-secret",
	} {
		want = append(want, volume.Object{Kind: volume.Secrets, Namespace: "default", Name: name})
	}
	if diff := cmp.Diff(want, objects.References(pod)); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}
