package staticpods

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// The UID of a manifest without metadata.uid is a digest of what it states:
//
//	SHA-256 of "nodekit.io/static-pod/v1\n" + node name + "\n" + canonical JSON,
//	its first 16 bytes in lower-case hexadecimal.
//
// The canonical JSON is an object with the name, the namespace, the labels, the
// annotations and the spec, as encoding/json prints a map: keys sorted, without
// blanks. It holds the fields that the file states and the API type knows, each
// value as the API type prints it: 1000m is 1, and a field that is set to its zero
// value is left out like one that is not set. Annotations that begin with
// kubernetes.io/config. are left out, because the node writes them.
//
// So a comment, the order of keys, the path of the file and a change of
// this package's defaults leave the UID alone, and so does a release of the API
// that adds fields or prints empty ones differently. The golden test holds the
// form in place: with a new UID every static pod of every node restarts.
const digestPrefix = "nodekit.io/static-pod/v1\n"

// configAnnotations is the prefix of the annotations that only a node writes.
const configAnnotations = "kubernetes.io/config."

// digestOf returns the digest of the manifest that was decoded from raw into pod,
// before any default was set.
func digestOf(pod *corev1.Pod, raw []byte, node string) (string, error) {
	typed, err := json.Marshal(pod)
	if err != nil {
		return "", fmt.Errorf("print the pod as JSON: %w", err)
	}
	var stated, known map[string]any
	if err := unmarshalExact(raw, &stated); err != nil {
		return "", fmt.Errorf("read the pod's JSON: %w", err)
	}
	if err := unmarshalExact(typed, &known); err != nil {
		return "", fmt.Errorf("read back the pod's JSON: %w", err)
	}
	object, _ := common(stated, known).(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	canonical, err := json.Marshal(map[string]any{
		"name":        pod.Name,
		"namespace":   namespaceOf(pod),
		"labels":      orEmpty(meta["labels"]),
		"annotations": withoutConfig(orEmpty(meta["annotations"])),
		"spec":        orEmpty(object["spec"]),
	})
	if err != nil {
		return "", fmt.Errorf("print the canonical pod: %w", err)
	}
	h := sha256.New()
	h.Write([]byte(digestPrefix + node + "\n"))
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// unmarshalExact keeps numbers as they are written.
func unmarshalExact(data []byte, into *map[string]any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// common returns the part of known whose keys stated has too. Lists have one
// length in both, since one was decoded from the other.
func common(stated, known any) any {
	switch known := known.(type) {
	case map[string]any:
		s, ok := stated.(map[string]any)
		if !ok {
			return known // a value with a form of its own, such as a time
		}
		out := map[string]any{}
		for k, v := range known {
			if sv, ok := s[k]; ok && sv != nil {
				out[k] = common(sv, v)
			}
		}
		return out
	case []any:
		s, ok := stated.([]any)
		if !ok || len(s) != len(known) {
			return known
		}
		out := make([]any, len(known))
		for i := range known {
			out[i] = common(s[i], known[i])
		}
		return out
	default:
		return known
	}
}

func orEmpty(v any) map[string]any {
	m, _ := v.(map[string]any)
	if m == nil {
		return map[string]any{}
	}
	return m
}

func withoutConfig(annotations map[string]any) map[string]any {
	for k := range annotations {
		if isConfigAnnotation(k) {
			delete(annotations, k)
		}
	}
	return annotations
}

func namespaceOf(pod *corev1.Pod) string {
	if pod.Namespace == "" {
		return corev1.NamespaceDefault
	}
	return pod.Namespace
}
