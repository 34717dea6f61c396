package objects

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Reference is an object that a pod refers to, in the pod's namespace.
type Reference struct {
	Kind Kind
	Name string
}

// References returns the ConfigMaps and Secrets that a pod refers to, each once, by
// kind and name: in its variables and volumes, and for pulling its images.
func References(pod *corev1.Pod) []Reference {
	var r references
	for i := range pod.Spec.ImagePullSecrets {
		r.add(Secret, pod.Spec.ImagePullSecrets[i].Name)
	}
	for i := range pod.Spec.Volumes {
		r.volume(&pod.Spec.Volumes[i].VolumeSource)
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r.variables(list[i].EnvFrom, list[i].Env)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		r.variables(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)
	}
	slices.SortFunc(r, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(r)
}

type references []Reference

// add takes a reference. The API allows empty names in old objects; they mean
// nothing.
func (r *references) add(kind Kind, name string) {
	if name != "" {
		*r = append(*r, Reference{Kind: kind, Name: name})
	}
}

func (r *references) volume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		r.add(ConfigMap, v.ConfigMap.Name)
	case v.Secret != nil:
		r.add(Secret, v.Secret.SecretName)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		r.add(Secret, v.CSI.NodePublishSecretRef.Name)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if c := v.Projected.Sources[i].ConfigMap; c != nil {
				r.add(ConfigMap, c.Name)
			}
			if s := v.Projected.Sources[i].Secret; s != nil {
				r.add(Secret, s.Name)
			}
		}
	}
}

func (r *references) variables(from []corev1.EnvFromSource, single []corev1.EnvVar) {
	for i := range from {
		if c := from[i].ConfigMapRef; c != nil {
			r.add(ConfigMap, c.Name)
		}
		if s := from[i].SecretRef; s != nil {
			r.add(Secret, s.Name)
		}
	}
	for i := range single {
		if single[i].ValueFrom == nil {
			continue
		}
		if c := single[i].ValueFrom.ConfigMapKeyRef; c != nil {
			r.add(ConfigMap, c.Name)
		}
		if s := single[i].ValueFrom.SecretKeyRef; s != nil {
			r.add(Secret, s.Name)
		}
	}
}
