package mirror_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/staticpods"
	"github.com/nodekit-go/nodekit/staticpods/mirror"
)

func owner() mirror.Owner { return mirror.Owner{Name: nodeName, UID: "n1"} }

func TestMirrorIsTheStaticPodOwnedByItsNode(t *testing.T) {
	pod := static("meter", "1")
	pod.Labels = map[string]string{"app": "meter"}
	pod.ResourceVersion, pod.Finalizers, pod.GenerateName = "7", []string{"a/b"}, "m-"
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 8080}}
	before := pod.DeepCopy()
	controller := true
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "meter-node-a", Labels: map[string]string{"app": "meter"},
			Annotations: map[string]string{
				staticpods.AnnotationHash: "meter-1", staticpods.AnnotationSource: "file", corev1.MirrorPodAnnotationKey: "meter-1",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName, UID: "n1", Controller: &controller}},
		},
		Spec: pod.Spec,
	}
	if diff := cmp.Diff(want, mirror.Project(pod, owner())); diff != "" {
		t.Errorf("mirror (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the static pod was changed (-before +after):\n%s", diff)
	}
}

func volume(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

func name(s string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: s} }

// full is a static pod that refers to everything that there is.
func full() *corev1.Pod {
	pod := static("meter", "1")
	s := &pod.Spec
	s.ServiceAccountName, s.DeprecatedServiceAccount = "meter", "meter"
	s.ImagePullSecrets = []corev1.LocalObjectReference{name("registry")}
	s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	password := name("password")
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}
	down := corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}
	s.Volumes = []corev1.Volume{
		volume("scratch", empty),
		volume("settings", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name("settings")}}),
		volume("keys", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}),
		volume("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}),
		volume("rbd", corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: &password}}),
		volume("scale", corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: &password}}),
		volume("cephfs", corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: &password}}),
		volume("iscsi", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}),
		volume("csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}),
		volume("identity", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{token}}}),
		volume("mixed", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{down, token}}}),
		volume("disk", corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "v"}}),
	}
	c := &s.Containers[0]
	c.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("settings")}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("keys")}},
	}
	c.Env = []corev1.EnvVar{
		{Name: "LEVEL", Value: "debug"},
		{Name: "SETTING", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name("settings"), Key: "k"}}},
		{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name("keys"), Key: "k"}}},
	}
	for _, v := range s.Volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	c.VolumeDevices = []corev1.VolumeDevice{{Name: "claim", DevicePath: "/dev/claim"}}
	c.Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 8080}}
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		Claims:   []corev1.ResourceClaim{{Name: "gpu"}},
	}
	s.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: []corev1.VolumeMount{{Name: "keys", MountPath: "/keys"}}}}
	return pod
}

// TestMirrorRefersToNothing: what NodeRestriction would refuse is left out and named;
// requests and ports stay.
func TestMirrorRefersToNothing(t *testing.T) {
	pod := mirror.Project(full(), owner())
	s := &pod.Spec
	if s.ServiceAccountName != "" || s.DeprecatedServiceAccount != "" || len(s.ImagePullSecrets) > 0 || len(s.ResourceClaims) > 0 {
		t.Errorf("references of the pod stayed: %+v", s)
	}
	kept := []string{}
	for _, v := range s.Volumes {
		kept = append(kept, v.Name)
	}
	if diff := cmp.Diff([]string{"scratch", "iscsi", "mixed", "disk"}, kept); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	c := s.Containers[0]
	mounts := []string{}
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name)
	}
	if diff := cmp.Diff(kept, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	want := full().Spec.Containers[0]
	want.VolumeMounts, want.VolumeDevices, want.EnvFrom = c.VolumeMounts, []corev1.VolumeDevice{}, []corev1.EnvFromSource{}
	want.Env = []corev1.EnvVar{want.Env[0], want.Env[2]}
	want.Resources.Claims = []corev1.ResourceClaim{}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if n := len(s.Volumes[2].Projected.Sources); n != 1 {
		t.Errorf("%d sources of the volume with a token among them, want 1", n)
	}
	omits := strings.Split(pod.Annotations[mirror.AnnotationOmits], ",")
	if diff := cmp.Diff([]string{
		"spec.serviceAccountName", "spec.imagePullSecrets", "spec.resourceClaims",
		"spec.volumes[1]", "spec.volumes[2]", "spec.volumes[3]", "spec.volumes[4]", "spec.volumes[5]", "spec.volumes[6]",
		"spec.volumes[8]", "spec.volumes[9]", "spec.volumes[10].projected.sources[1]",
		"spec.initContainers[0].volumeMounts[0]",
		"spec.containers[0].envFrom[0]", "spec.containers[0].envFrom[1]", "spec.containers[0].env[1]", "spec.containers[0].env[3]",
		"spec.containers[0].volumeMounts[1]", "spec.containers[0].volumeMounts[2]", "spec.containers[0].volumeMounts[3]",
		"spec.containers[0].volumeMounts[4]", "spec.containers[0].volumeMounts[5]", "spec.containers[0].volumeMounts[6]",
		"spec.containers[0].volumeMounts[8]", "spec.containers[0].volumeMounts[9]",
		"spec.containers[0].volumeDevices[0]", "spec.containers[0].resources.claims[0]",
	}, omits); diff != "" {
		t.Errorf("omitted (-want +got):\n%s", diff)
	}
}

func TestOmissionsAreNamedUpToABound(t *testing.T) {
	pod := static("meter", "1")
	for i := range 60 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{
			Name: fmt.Sprint("K", i), ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}},
		})
	}
	omits := mirror.Project(pod, owner()).Annotations[mirror.AnnotationOmits]
	if !strings.HasSuffix(omits, "env[49] and 10 more") {
		t.Errorf("omitted: %s", omits)
	}
}
