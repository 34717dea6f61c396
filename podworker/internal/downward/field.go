package downward

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Subscript splits a path such as metadata.labels['app'].
func Subscript(path string) (field, key string, ok bool) {
	field, rest, found := strings.Cut(path, "['")
	if !found {
		return path, "", false
	}
	key, found = strings.CutSuffix(rest, "']")
	return field, key, found
}

// Metadata returns what a path names of the metadata of a pod: its name, namespace or UID,
// its labels or annotations, or one of those. One that the pod does not have is empty.
func Metadata(pod *corev1.Pod, path string) (string, error) {
	if field, key, ok := Subscript(path); ok {
		switch field {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
		return "", fmt.Errorf("field path %q does not support a subscript", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	}
	return "", fmt.Errorf("field path %q is not supported", path)
}

// lines returns a line key="value" for each entry of a map, in the order of the keys.
func lines(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(out, "\n")
}
