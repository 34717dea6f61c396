package volume

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Kind is a kind of objects that volumes show to containers.
type Kind uint8

// The kinds of objects.
const (
	ConfigMaps Kind = iota + 1
	Secrets
	// TrustBundles are ClusterTrustBundles, which have no namespace.
	TrustBundles
)

// String returns the kind as messages about single objects name it.
func (k Kind) String() string {
	switch k {
	case ConfigMaps:
		return "configmap"
	case Secrets:
		return "secret"
	case TrustBundles:
		return "clustertrustbundle"
	}
	return "invalid"
}

// Object names an object that a volume refers to. An empty name of a TrustBundles
// object stands for all of them: a volume may select them by signer.
type Object struct {
	Kind            Kind
	Namespace, Name string
}

func (o Object) compare(with Object) int {
	return cmp.Or(cmp.Compare(o.Kind, with.Kind), cmp.Compare(o.Namespace, with.Namespace), cmp.Compare(o.Name, with.Name))
}

// References returns the objects that the volumes of a pod refer to, each once, in order.
// What variables refer to is not among them.
func References(pod *corev1.Pod) []Object {
	var out []Object
	for i := range pod.Spec.Volumes {
		out = append(out, references(pod.Namespace, &pod.Spec.Volumes[i])...)
	}
	slices.SortFunc(out, Object.compare)
	return slices.Compact(out)
}

// references returns the objects that one volume refers to.
func references(namespace string, v *corev1.Volume) []Object {
	switch {
	case v.ConfigMap != nil:
		return []Object{{Kind: ConfigMaps, Namespace: namespace, Name: v.ConfigMap.Name}}
	case v.Secret != nil:
		return []Object{{Kind: Secrets, Namespace: namespace, Name: v.Secret.SecretName}}
	case v.Projected == nil:
		return nil
	}
	var out []Object
	for i := range v.Projected.Sources {
		switch s := &v.Projected.Sources[i]; {
		case s.ConfigMap != nil:
			out = append(out, Object{Kind: ConfigMaps, Namespace: namespace, Name: s.ConfigMap.Name})
		case s.Secret != nil:
			out = append(out, Object{Kind: Secrets, Namespace: namespace, Name: s.Secret.Name})
		case s.ClusterTrustBundle != nil:
			o := Object{Kind: TrustBundles}
			if s.ClusterTrustBundle.Name != nil {
				o.Name = *s.ClusterTrustBundle.Name
			}
			out = append(out, o)
		}
	}
	return out
}
