package staticpods

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// validateStatic refuses what a static pod cannot have, because it lives on an
// API object that the node may not get. The messages are the kubelet's. What may stand
// beside the pod is a need, see need.go.
func validateStatic(f *findings, pod *corev1.Pod) {
	const may = "static pods may not reference %s"
	s := &pod.Spec
	if s.ServiceAccountName != "" {
		f.add("spec.serviceAccountName", may, "serviceaccounts")
	}
	if len(s.ResourceClaims) > 0 {
		f.add("spec.resourceClaims", may, "resourceclaims")
	}
	for i := range s.Volumes {
		field, what := staticVolume(&s.Volumes[i].VolumeSource)
		if what != "" {
			f.add(fmt.Sprintf("spec.volumes[%d].%s", i, field), may, what)
		}
		if p := s.Volumes[i].Projected; p != nil {
			staticProjected(f, fmt.Sprintf("spec.volumes[%d].projected", i), p)
		}
	}
	if _, ok := pod.Annotations[annotationMirror]; ok {
		f.add("metadata.annotations["+annotationMirror+"]", "marks the mirror pod of a static pod; remove it")
	}
}

// staticVolume returns the field and the kind of object that a volume needs from
// the API server, or a volume type that needs it for credentials.
func staticVolume(v *corev1.VolumeSource) (field, what string) {
	switch {
	case v.CSI != nil:
		return "csi", "csi volumes"
	case v.PersistentVolumeClaim != nil:
		return "persistentVolumeClaim", "persistentvolumeclaims"
	case v.Ephemeral != nil:
		return "ephemeral", "ephemeral volumes"
	case v.AzureFile != nil:
		return "azureFile", "azurefile volumes"
	case v.Glusterfs != nil:
		return "glusterfs", "glusterfs volumes"
	}
	return secretRef(v)
}

// secretRef finds a volume type whose optional secretRef is set.
func secretRef(v *corev1.VolumeSource) (field, what string) {
	switch {
	case v.CephFS != nil && v.CephFS.SecretRef != nil:
		field = "cephfs"
	case v.FlexVolume != nil && v.FlexVolume.SecretRef != nil:
		field = "flexVolume"
	case v.ISCSI != nil && v.ISCSI.SecretRef != nil:
		field = "iscsi"
	case v.RBD != nil && v.RBD.SecretRef != nil:
		field = "rbd"
	case v.ScaleIO != nil && v.ScaleIO.SecretRef != nil:
		field = "scaleIO"
	case v.StorageOS != nil && v.StorageOS.SecretRef != nil:
		field = "storageos"
	default:
		return "", ""
	}
	return field + ".secretRef", "secrets"
}

func staticProjected(f *findings, path string, p *corev1.ProjectedVolumeSource) {
	for i, src := range p.Sources {
		for _, s := range []struct {
			set         bool
			field, what string
		}{
			{src.ServiceAccountToken != nil, "serviceAccountToken", "serviceaccounts"},
			{src.ClusterTrustBundle != nil, "clusterTrustBundle", "clustertrustbundles"},
			{src.PodCertificate != nil, "podCertificate", "podcertificates"},
		} {
			if s.set {
				f.add(fmt.Sprintf("%s.sources[%d].%s", path, i, s.field), "static pods may not reference %s", s.what)
			}
		}
	}
}

// eachContainer calls fn for every container of the pod, init containers first,
// with its path in the manifest.
func eachContainer(s *corev1.PodSpec, fn func(path string, c *corev1.Container)) {
	for i := range s.InitContainers {
		fn(at("spec.initContainers", i), &s.InitContainers[i])
	}
	for i := range s.Containers {
		fn(at("spec.containers", i), &s.Containers[i])
	}
}

// sourcesOf returns the names of the fields that are set in a struct of pointers,
// such as the source of a volume: one must be.
func sourcesOf(v any) []string {
	rv := reflect.ValueOf(v)
	var set []string
	for i := range rv.NumField() {
		if f := rv.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			set = append(set, jsonName(rv.Type().Field(i)))
		}
	}
	return set
}
