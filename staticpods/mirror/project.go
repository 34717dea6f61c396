package mirror

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/staticpods"
)

// AnnotationOmits lists the fields of a static pod that its mirror lacks, because they
// refer to objects of the API server, such as "spec.volumes[1]". A mirror that lacks
// nothing has no such annotation.
const AnnotationOmits = "nodekit.io/mirror-omits"

// maxOmits is how many fields AnnotationOmits names.
const maxOmits = 50

// ownerKind is the kind of the objects that own mirrors.
const ownerKind = "Node"

// Owner is the Node that a mirror belongs to.
type Owner struct {
	Name string
	UID  types.UID
}

// Project returns the mirror of a static pod, for its Node: the object with which the
// API server is asked to create it. The pod is not changed.
//
// The mirror has the static pod's name, labels, annotations and spec, the annotation
// kubernetes.io/config.mirror with its hash, and the Node as the one owner, as the
// kubelet's mirrors have. NodeRestriction takes from a node no pod that refers to other
// objects of the API server, so the mirror is without those of the static pod's
// ConfigMaps, Secrets, service account, claims and the like, be they variables,
// volumes, or mounts of such a volume. Everything that decides on resources, ports,
// scheduling and security stays as it is.
func Project(pod *corev1.Pod, owner Owner) *corev1.Pod {
	controller := true
	mirror := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: ownerKind, Name: owner.Name, UID: owner.UID, Controller: &controller,
			}},
		},
		Spec: pod.Spec,
	}
	mirror = mirror.DeepCopy()
	metav1.SetMetaDataAnnotation(&mirror.ObjectMeta, corev1.MirrorPodAnnotationKey, pod.Annotations[staticpods.AnnotationHash])
	o := omissions{}
	o.spec(&mirror.Spec)
	delete(mirror.Annotations, AnnotationOmits)
	if len(o.fields) > 0 {
		mirror.Annotations[AnnotationOmits] = o.String()
	}
	return mirror
}

// omissions takes out of a pod what refers to objects of the API server, and notes the
// fields by their places in the static pod.
type omissions struct{ fields []string }

// String returns the fields, separated by commas.
func (o *omissions) String() string {
	text := strings.Join(o.fields[:min(maxOmits, len(o.fields))], ",")
	if more := len(o.fields) - maxOmits; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (o *omissions) note(format string, args ...any) {
	o.fields = append(o.fields, fmt.Sprintf(format, args...))
}

func (o *omissions) spec(s *corev1.PodSpec) {
	if s.ServiceAccountName != "" || s.DeprecatedServiceAccount != "" {
		o.note("spec.serviceAccountName")
		s.ServiceAccountName, s.DeprecatedServiceAccount = "", ""
	}
	if len(s.ImagePullSecrets) > 0 {
		o.note("spec.imagePullSecrets")
		s.ImagePullSecrets = nil
	}
	if len(s.ResourceClaims) > 0 {
		o.note("spec.resourceClaims")
		s.ResourceClaims = nil
	}
	dropped := o.volumes(s)
	for i := range s.InitContainers {
		o.container(fmt.Sprintf("spec.initContainers[%d]", i), &s.InitContainers[i], dropped)
	}
	for i := range s.Containers {
		o.container(fmt.Sprintf("spec.containers[%d]", i), &s.Containers[i], dropped)
	}
}

// volumes drops volumes that need an object of the API server, and returns their names.
func (o *omissions) volumes(s *corev1.PodSpec) map[string]bool {
	dropped := map[string]bool{}
	var kept []corev1.Volume
	for i := range s.Volumes {
		v := s.Volumes[i]
		switch {
		case v.Projected != nil:
			if !o.projected(i, v.Projected) {
				dropped[v.Name] = true
				continue
			}
		case refers(&v.VolumeSource):
			o.note("spec.volumes[%d]", i)
			dropped[v.Name] = true
			continue
		}
		kept = append(kept, v)
	}
	s.Volumes = kept
	return dropped
}

// projected drops the sources of a projected volume that refer to objects, and reports
// whether something is left of it.
func (o *omissions) projected(index int, p *corev1.ProjectedVolumeSource) bool {
	var kept []corev1.VolumeProjection
	var lost []int
	for i, source := range p.Sources {
		if source.DownwardAPI != nil {
			kept = append(kept, source)
		} else {
			lost = append(lost, i)
		}
	}
	if len(kept) == 0 && len(lost) > 0 {
		o.note("spec.volumes[%d]", index)
		return false
	}
	for _, i := range lost {
		o.note("spec.volumes[%d].projected.sources[%d]", index, i)
	}
	p.Sources = kept
	return true
}

// refers reports whether a volume needs an object of the API server, of which
// NodeRestriction allows a mirror none. Kinds of volumes that are not known here do:
// NodeRestriction refuses those that it does not know.
func refers(v *corev1.VolumeSource) bool {
	switch {
	case v.CephFS != nil:
		return v.CephFS.SecretRef != nil
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef != nil
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef != nil
	case v.RBD != nil:
		return v.RBD.SecretRef != nil
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef != nil
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef != nil
	case v.EmptyDir != nil, v.HostPath != nil, v.DownwardAPI != nil, v.Image != nil, v.NFS != nil,
		v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.Cinder != nil, v.FC != nil, v.Flocker != nil,
		v.GCEPersistentDisk != nil, v.GitRepo != nil, v.PhotonPersistentDisk != nil, v.PortworxVolume != nil,
		v.Quobyte != nil, v.VsphereVolume != nil:
		return false
	}
	return true
}

// container drops what a container has of ConfigMaps, Secrets, claims and of volumes
// that were dropped.
func (o *omissions) container(path string, c *corev1.Container, dropped map[string]bool) {
	keep(&c.EnvFrom, o, path+".envFrom", func(e *corev1.EnvFromSource) bool {
		return e.ConfigMapRef == nil && e.SecretRef == nil
	})
	keep(&c.Env, o, path+".env", func(e *corev1.EnvVar) bool {
		return e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil && e.ValueFrom.SecretKeyRef == nil
	})
	keep(&c.VolumeMounts, o, path+".volumeMounts", func(m *corev1.VolumeMount) bool { return !dropped[m.Name] })
	keep(&c.VolumeDevices, o, path+".volumeDevices", func(d *corev1.VolumeDevice) bool { return !dropped[d.Name] })
	keep(&c.Resources.Claims, o, path+".resources.claims", func(*corev1.ResourceClaim) bool { return false })
}

// keep drops the items of a list that are not to be kept, and notes them.
func keep[T any](list *[]T, o *omissions, path string, kept func(*T) bool) {
	index := -1
	*list = slices.DeleteFunc(*list, func(item T) bool {
		index++
		if kept(&item) {
			return false
		}
		o.note("%s[%d]", path, index)
		return true
	})
}
