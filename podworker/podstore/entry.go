package podstore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The kinds of entries, which begin the names of their files.
const (
	kindPod       = "pod"
	kindConfigMap = "configmap"
	kindSecret    = "secret"
	kindContact   = "contact"
)

// podFile returns the name of the file of a pod. A UID may hold any character.
func podFile(uid types.UID) string { return kindPod + "-" + url.PathEscape(string(uid)) }

// objectFile returns the name of the file of a ConfigMap or Secret. Their names are too
// long for one.
func objectFile(kind, namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return kind + "-" + hex.EncodeToString(sum[:16])
}

// worthKeeping reports whether a pod would have to run after a reboot.
func worthKeeping(pod *corev1.Pod) bool {
	source := pod.Annotations["kubernetes.io/config.source"]
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !mirror && !ended && (source == "" || source == "api")
}

// encodePod returns what is kept of a pod: what it is, and its spec.
func encodePod(pod *corev1.Pod) ([]byte, error) {
	kept := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, Generation: pod.Generation,
			Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec: pod.Spec,
	}
	data, err := json.Marshal(&kept)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return data, nil
}

// decodePod reads what encodePod has written.
func decodePod(data []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(data, pod); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case pod.Kind != "Pod" || pod.APIVersion != "v1":
		return nil, fmt.Errorf("%w: it is a %s of %s, want a Pod of v1", ErrDamaged, pod.Kind, pod.APIVersion)
	case pod.UID == "" || pod.Name == "" || pod.Namespace == "":
		return nil, fmt.Errorf("%w: the pod has no name, namespace or UID", ErrDamaged)
	case len(pod.Spec.Containers) == 0:
		return nil, fmt.Errorf("%w: the pod has no containers", ErrDamaged)
	}
	pod.Status = corev1.PodStatus{}
	return pod, nil
}

// encodeContact and decodeContact write and read the time of the last contact.
func encodeContact(t time.Time) []byte { return []byte(t.UTC().Format(time.RFC3339)) }

func decodeContact(data []byte) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, string(data))
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return t, nil
}

// object is the payload of a ConfigMap or Secret.
type object struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// ConfigMap has the object in the clear, Sealed a Secret as its Sealer made it.
	ConfigMap *corev1.ConfigMap `json:"configMap,omitempty"`
	Sealed    []byte            `json:"sealed,omitempty"`
}

// decodeObject reads the payload of a ConfigMap or Secret.
func decodeObject(data []byte) (*object, error) {
	o := &object{}
	if err := json.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if (o.ConfigMap == nil) == (o.Sealed == nil) {
		return nil, fmt.Errorf("%w: want either a ConfigMap or a sealed Secret", ErrDamaged)
	}
	return o, nil
}

// secret is what is sealed of a Secret.
type secret struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Type      corev1.SecretType `json:"type,omitempty"`
	Data      map[string][]byte `json:"data,omitempty"`
}

// decodeSecret reads what was sealed of a Secret of a name.
func decodeSecret(data []byte, namespace, name string) (*corev1.Secret, error) {
	s := secret{}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, errors.New("it does not hold a Secret") // the cause may cite it
	}
	if s.Namespace != namespace || s.Name != name {
		return nil, fmt.Errorf("%w: it is Secret %s/%s", ErrDamaged, s.Namespace, s.Name)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Type: s.Type, Data: s.Data}, nil
}

// references yields the files of the ConfigMaps and Secrets that a pod refers to.
func references(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true
		refer := func(kind, name string) {
			if name != "" && more {
				more = yield(objectFile(kind, pod.Namespace, name))
			}
		}
		for _, s := range pod.Spec.ImagePullSecrets {
			refer(kindSecret, s.Name)
		}
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				ofContainer(&list[i], refer)
			}
		}
		for i := range pod.Spec.Volumes {
			ofVolume(&pod.Spec.Volumes[i], refer)
		}
	}
}

func ofContainer(c *corev1.Container, refer func(kind, name string)) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			refer(kindConfigMap, from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			refer(kindSecret, from.SecretRef.Name)
		}
	}
	for _, e := range c.Env {
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.ConfigMapKeyRef != nil:
			refer(kindConfigMap, e.ValueFrom.ConfigMapKeyRef.Name)
		case e.ValueFrom.SecretKeyRef != nil:
			refer(kindSecret, e.ValueFrom.SecretKeyRef.Name)
		}
	}
}

func ofVolume(v *corev1.Volume, refer func(kind, name string)) {
	if v.ConfigMap != nil {
		refer(kindConfigMap, v.ConfigMap.Name)
	}
	if v.Secret != nil {
		refer(kindSecret, v.Secret.SecretName)
	}
	if v.Projected == nil {
		return
	}
	for _, from := range v.Projected.Sources {
		if from.ConfigMap != nil {
			refer(kindConfigMap, from.ConfigMap.Name)
		}
		if from.Secret != nil {
			refer(kindSecret, from.Secret.Name)
		}
	}
}
