package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// environment is the variables of one container, in order, and a look-up for
// references to them.
type environment struct {
	list []*runtimeapi.KeyValue
	at   map[string]int
}

func (e *environment) set(name, value string) {
	if i, ok := e.at[name]; ok {
		e.list[i].Value = []byte(value)
		return
	}
	e.at[name] = len(e.list)
	e.list = append(e.list, &runtimeapi.KeyValue{Key: name, Value: []byte(value)})
}

func (e *environment) look(name string) (string, bool) {
	i, ok := e.at[name]
	if !ok {
		return "", false
	}
	return string(e.list[i].Value), true
}

// newEnvironment evaluates the variables of a container in order: a value may
// refer to those before it, and the later of two with one name wins.
func newEnvironment(pod *corev1.Pod, c *corev1.Container, node *Node, podIPs []string) (*environment, error) {
	env := &environment{at: make(map[string]int, len(c.Env))}
	for i := range c.Env {
		v := &c.Env[i]
		if v.ValueFrom == nil {
			env.set(v.Name, Expand(v.Value, env.look))
			continue
		}
		if v.ValueFrom.FieldRef == nil {
			return nil, fmt.Errorf("environment variable %s: source is not supported", v.Name)
		}
		value, err := podField(pod, v.ValueFrom.FieldRef.FieldPath, node, podIPs)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
		}
		env.set(v.Name, value)
	}
	return env, nil
}

// plainFields are the paths of a fieldRef without a subscript
// (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/).
//
//nolint:gochecknoglobals // a constant table
var plainFields = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
	"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}

// fieldRef returns why a fieldRef is not supported, empty if it is.
func fieldRef(ref corev1.ObjectFieldSelector) string {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return fmt.Sprintf("apiVersion %q is not supported, only v1", ref.APIVersion)
	}
	if field, _, ok := subscript(ref.FieldPath); ok {
		if field == "metadata.labels" || field == "metadata.annotations" {
			return ""
		}
	}
	if slices.Contains(plainFields, ref.FieldPath) {
		return ""
	}
	return fmt.Sprintf("field path %q is not supported", ref.FieldPath)
}

// subscript splits a path such as metadata.labels['app'].
func subscript(path string) (field, key string, ok bool) {
	field, rest, found := strings.Cut(path, "['")
	if !found {
		return path, "", false
	}
	key, found = strings.CutSuffix(rest, "']")
	return field, key, found
}

func podField(pod *corev1.Pod, path string, node *Node, podIPs []string) (string, error) {
	if field, key, ok := subscript(path); ok {
		switch field {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(node.IPs), nil
	case "status.hostIPs":
		return strings.Join(node.IPs, ","), nil
	case "status.podIP":
		return first(podIPs), nil
	case "status.podIPs":
		return strings.Join(podIPs, ","), nil
	}
	return "", fmt.Errorf("field path %q is not supported", path)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
