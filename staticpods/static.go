package staticpods

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations that a node keeps on its pods, with the kubelet's keys.
const (
	// AnnotationSource says where the pod comes from: "file", or "http" for a URL.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationHash is the UID of a static pod; a changed manifest changes it.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSeen is the time at which a Source first saw the pod, as
	// time.RFC3339Nano.
	AnnotationSeen = "kubernetes.io/config.seen"

	annotationMirror = "kubernetes.io/config.mirror"
	sourceFile       = "file"
	sourceURL        = "http"
)

// systemNodeCritical is the priority of system-node-critical
// (https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption).
const systemNodeCritical = 2000001000

// origin is where a static pod comes from.
type origin struct {
	// node is the name of the node that reads the manifest.
	node string
	// remote is true for a URL, false for a file.
	remote bool
}

// makeStatic turns a pod with the defaults of the API into a static pod of the
// node, in the kubelet's order: UID, name, namespace, node, hash, toleration,
// phase. As in the kubelet, pods of a URL get no toleration.
func makeStatic(pod *corev1.Pod, digest string, from origin) {
	if pod.UID == "" {
		pod.UID = types.UID(digest)
	}
	if pod.Name != "" {
		pod.Name += "-" + strings.ToLower(from.node)
	}
	pod.Namespace = namespaceOf(pod)
	pod.Spec.NodeName = from.node
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationHash, string(pod.UID))
	if from.remote {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationSource, sourceURL)
	} else {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationSource, sourceFile)
		tolerateNoExecute(&pod.Spec)
	}
	pod.Status.Phase = corev1.PodPending
}

// tolerateNoExecute keeps taints from evicting the pod: nothing could place it
// elsewhere.
func tolerateNoExecute(spec *corev1.PodSpec) {
	all := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if !slices.Contains(spec.Tolerations, all) {
		spec.Tolerations = append(spec.Tolerations, all)
	}
}

// adopt gives the pod the UID of one that already runs from the same manifest.
func adopt(pod *corev1.Pod, uid types.UID) {
	pod.UID = uid
	pod.Annotations[AnnotationHash] = string(uid)
}

func isConfigAnnotation(key string) bool { return strings.HasPrefix(key, configAnnotations) }

// dropForeign removes what another party sets: the API server, a scheduler, a
// node. A manifest that was copied from "kubectl get" is full of it, and a copied
// deletionTimestamp would stop the pod at once.
func dropForeign(vain *findings, pod *corev1.Pod, node string) {
	dropForeignMeta(vain, &pod.ObjectMeta)
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if isConfigAnnotation(key) && key != annotationMirror {
			vain.add("metadata.annotations["+key+"]", "is the node's to write and is replaced")
			delete(pod.Annotations, key)
		}
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node {
		vain.add("spec.nodeName", "is %q; a static pod runs on the node that reads it, %q", pod.Spec.NodeName, node)
	}
	if !reflect.DeepEqual(pod.Status, corev1.PodStatus{}) {
		vain.add("status", "has no meaning in a manifest and is dropped")
	}
	pod.Status = corev1.PodStatus{}
}

// dropForeignMeta is dropForeign for what all objects have.
func dropForeignMeta(vain *findings, m *metav1.ObjectMeta) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"resourceVersion", m.ResourceVersion != ""},
		{"generation", m.Generation != 0},
		{"creationTimestamp", !m.CreationTimestamp.IsZero()},
		{"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil},
		{"managedFields", len(m.ManagedFields) > 0},
		{"selfLink", m.SelfLink != ""}, //nolint:staticcheck // manifests copied from an old cluster have it
		{"generateName", m.GenerateName != ""},
		{"ownerReferences", len(m.OwnerReferences) > 0},
		{"finalizers", len(m.Finalizers) > 0},
	} {
		if f.set {
			vain.add("metadata."+f.name, "has no meaning in a manifest and is dropped")
		}
	}
	*m = metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, Labels: m.Labels, Annotations: m.Annotations}
}

// warnPriority says what no one resolves on a node: the number of a class.
func warnPriority(vain *findings, pod *corev1.Pod) {
	s := &pod.Spec
	switch {
	case s.PriorityClassName != "" && s.Priority == nil:
		vain.add("spec.priorityClassName", "has no effect without spec.priority: a node does not look up classes")
	case s.Priority != nil && s.PriorityClassName == "":
		vain.add("spec.priority", "is set without spec.priorityClassName")
	case s.Priority != nil && (*s.Priority != systemNodeCritical || s.PriorityClassName != "system-node-critical"):
		vain.add("spec.priority", "is not that of system-node-critical (%d); a static pod is critical whatever it says", systemNodeCritical)
	}
}
