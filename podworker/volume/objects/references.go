package objects

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// References returns the ConfigMaps and Secrets that a pod refers to, each once: in its
// volumes, in its variables, and for pulling its images. Those of volumes alone are
// what [volume.References] returns.
func References(pod *corev1.Pod) []volume.Object {
	r := references{namespace: pod.Namespace, found: map[volume.Object]bool{}}
	for _, o := range volume.References(pod) {
		if o.Kind != volume.TrustBundles {
			r.found[o] = true
		}
	}
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].CSI; v != nil && v.NodePublishSecretRef != nil {
			r.add(volume.Secrets, v.NodePublishSecretRef.Name)
		}
	}
	for i := range pod.Spec.ImagePullSecrets {
		r.add(volume.Secrets, pod.Spec.ImagePullSecrets[i].Name)
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r.variables(list[i].EnvFrom, list[i].Env)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		r.variables(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)
	}
	// The API allows references without a name. They mean nothing.
	maps.DeleteFunc(r.found, func(o volume.Object, _ bool) bool { return o.Name == "" })
	return slices.SortedFunc(maps.Keys(r.found), func(a, b volume.Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// references collects what one pod refers to.
type references struct {
	namespace string
	found     map[volume.Object]bool
}

func (r *references) add(kind volume.Kind, name string) {
	r.found[volume.Object{Kind: kind, Namespace: r.namespace, Name: name}] = true
}

func (r *references) variables(from []corev1.EnvFromSource, single []corev1.EnvVar) {
	for i := range from {
		if c := from[i].ConfigMapRef; c != nil {
			r.add(volume.ConfigMaps, c.Name)
		}
		if s := from[i].SecretRef; s != nil {
			r.add(volume.Secrets, s.Name)
		}
	}
	for i := range single {
		if single[i].ValueFrom == nil {
			continue
		}
		if c := single[i].ValueFrom.ConfigMapKeyRef; c != nil {
			r.add(volume.ConfigMaps, c.Name)
		}
		if s := single[i].ValueFrom.SecretKeyRef; s != nil {
			r.add(volume.Secrets, s.Name)
		}
	}
}
