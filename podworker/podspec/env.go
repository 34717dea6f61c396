package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/internal/downward"
)

// environment is the variables of one container, in order, and a look-up for
// references to them.
type environment struct {
	list []*runtimeapi.KeyValue
	at   map[string]int
	// services are appended at the end unless the container has variables of these
	// names. References find them from the beginning.
	services []variable
}

type variable struct{ name, value string }

func (e *environment) set(name, value string) {
	if i, ok := e.at[name]; ok {
		e.list[i].Value = []byte(value)
		return
	}
	e.at[name] = len(e.list)
	e.list = append(e.list, &runtimeapi.KeyValue{Key: name, Value: []byte(value)})
}

func (e *environment) look(name string) (string, bool) {
	if i, ok := e.at[name]; ok {
		return string(e.list[i].Value), true
	}
	for i := range e.services {
		if e.services[i].name == name {
			return e.services[i].value, true
		}
	}
	return "", false
}

// close adds the variables of Services.
func (e *environment) close() {
	for _, v := range e.services {
		if _, own := e.at[v.name]; !own {
			e.set(v.name, v.value)
		}
	}
}

// evaluation evaluates the variables of one container.
type evaluation struct {
	pod  *corev1.Pod
	c    *corev1.Container
	node *Node
	run  *Run
}

// newEnvironment evaluates the variables of a container: those of whole objects
// first, then single ones in order. A value may refer to those before it and to those
// of Services, and the later of two with one name wins.
func newEnvironment(pod *corev1.Pod, c *corev1.Container, node *Node, run *Run) (*environment, error) {
	if err := run.References.NotYet; err != nil {
		return nil, err
	}
	env := &environment{at: make(map[string]int, len(c.Env)), services: serviceVariables(pod, run.References.Services)}
	ev := evaluation{pod: pod, c: c, node: node, run: run}
	for i := range c.EnvFrom {
		if err := ev.addObject(env, &c.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		if v.Value != "" || v.ValueFrom == nil {
			env.set(v.Name, Expand(v.Value, env.look))
			continue
		}
		value, found, err := ev.value(v.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
		}
		if found {
			env.set(v.Name, value)
		}
	}
	env.close()
	return env, nil
}

// addObject adds a variable for each key of a ConfigMap or Secret.
func (ev *evaluation) addObject(env *environment, from *corev1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil:
		object, err := ev.run.References.configMap(ev.pod, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		if err != nil || object == nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(object.Data)) {
			env.set(from.Prefix+key, object.Data[key])
		}
	case from.SecretRef != nil:
		object, err := ev.run.References.secret(ev.pod, from.SecretRef.Name, from.SecretRef.Optional)
		if err != nil || object == nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(object.Data)) {
			env.set(from.Prefix+key, string(object.Data[key]))
		}
	}
	return nil
}

// value returns the value of a variable from elsewhere, and whether there is one: an
// optional reference may lead to nothing.
func (ev *evaluation) value(from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = podField(ev.pod, from.FieldRef.FieldPath, ev.node, ev.run.PodIPs)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(ev.pod, ev.c, from.ResourceFieldRef, ev.node.Allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return ev.configMapKey(from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return ev.secretKey(from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return ev.fileKey(from.FileKeyRef)
	}
	return "", false, fmt.Errorf("source is not supported")
}

func (ev *evaluation) configMapKey(ref *corev1.ConfigMapKeySelector) (value string, found bool, err error) {
	object, err := ev.run.References.configMap(ev.pod, ref.Name, ref.Optional)
	if err != nil || object == nil {
		return "", false, err
	}
	value, found = object.Data[ref.Key]
	if !found && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, ev.pod.Namespace, ref.Name)
	}
	return value, found, nil
}

func (ev *evaluation) secretKey(ref *corev1.SecretKeySelector) (value string, found bool, err error) {
	object, err := ev.run.References.secret(ev.pod, ref.Name, ref.Optional)
	if err != nil || object == nil {
		return "", false, err
	}
	raw, found := object.Data[ref.Key]
	if !found && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, ev.pod.Namespace, ref.Name)
	}
	return string(raw), found, nil
}

// fileKey reads a variable from a file in a volume. A file that cannot be read is an
// error even where the variable is optional, as the kubelet has it.
func (ev *evaluation) fileKey(ref *corev1.FileKeySelector) (value string, found bool, err error) {
	v, err := volume(ev.pod, ref.VolumeName)
	if err != nil {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	at, ready := ev.run.Volumes[v.Name]
	if !ready || !isEmptyDir(v) || ev.run.References.Files == nil {
		return "", false, fmt.Errorf("volume %q cannot be read for FileKeyRef", ref.VolumeName)
	}
	content, err := ev.run.References.Files.ReadFile(at.Path, ref.Path)
	if err != nil {
		return "", false, fmt.Errorf("couldn't parse env file: %w", err)
	}
	value, err = ParseEnvFile(content, ref.Key)
	if err != nil {
		return "", false, fmt.Errorf("couldn't parse env file: %w", err)
	}
	if value == "" && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, value != "", nil
}

// plainFields are the paths of a fieldRef without a subscript
// (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/).
//
//nolint:gochecknoglobals // a constant table
var plainFields = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
	"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}

// volumePlainFields are the same for volumes.
//
//nolint:gochecknoglobals // a constant table
var volumePlainFields = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations",
}

// fieldRef returns why a fieldRef of a variable, or of a volume, is not supported, empty
// if it is.
func fieldRef(ref corev1.ObjectFieldSelector, inVolume bool) string {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return fmt.Sprintf("apiVersion %q is not supported, only v1", ref.APIVersion)
	}
	if field, _, ok := downward.Subscript(ref.FieldPath); ok {
		if field == "metadata.labels" || field == "metadata.annotations" {
			return ""
		}
	}
	known := plainFields
	if inVolume {
		known = volumePlainFields
	}
	if slices.Contains(known, ref.FieldPath) {
		return ""
	}
	return fmt.Sprintf("field path %q is not supported", ref.FieldPath)
}

func podField(pod *corev1.Pod, path string, node *Node, podIPs []string) (string, error) {
	if field, key, ok := downward.Subscript(path); ok {
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
