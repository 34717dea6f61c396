package staticpods

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// need is a reference of a static pod to an object that has to stand beside it, because
// the node may not get one from an API server for a pod that this server does not know.
type need struct {
	name  objectName
	field string
	line  int
}

// problem says in the kubelet's words that the object is not there.
func (n need) problem() Problem {
	what := "configmaps"
	if n.name.kind == kindSecret {
		what = "secrets"
	}
	return Problem{Line: n.line, Field: n.field, Message: fmt.Sprintf(
		"static pods may not reference %s, except those that stand in a manifest beside them; none holds %s", what, n.name)}
}

// unmet returns a problem for each need that is not there.
func unmet(needs []need, there func(objectName) bool) []Problem {
	var problems []Problem
	for _, n := range needs {
		if !there(n.name) {
			problems = append(problems, n.problem())
		}
	}
	return problems
}

// needsOf returns what a pod needs beside it. Optional references need nothing.
func needsOf(pod *corev1.Pod, doc strictyaml.Document) []need {
	n := needs{namespace: pod.Namespace}
	for i := range pod.Spec.ImagePullSecrets {
		n.add(kindSecret, pod.Spec.ImagePullSecrets[i].Name, nil, "%s", at("spec.imagePullSecrets", i))
	}
	for i := range pod.Spec.Volumes {
		n.volume(at("spec.volumes", i), &pod.Spec.Volumes[i].VolumeSource)
	}
	eachContainer(&pod.Spec, n.container)
	for i := range n.list {
		n.list[i].line = doc.LineOf(n.list[i].field)
	}
	return n.list
}

// needs collects what one pod needs.
type needs struct {
	namespace string
	list      []need
}

func (n *needs) add(kind, name string, optional *bool, field string, args ...any) {
	if name == "" || optional != nil && *optional {
		return
	}
	n.list = append(n.list, need{
		name: objectName{kind: kind, namespace: n.namespace, name: name}, field: fmt.Sprintf(field, args...),
	})
}

func (n *needs) volume(path string, v *corev1.VolumeSource) {
	if c := v.ConfigMap; c != nil {
		n.add(kindConfigMap, c.Name, c.Optional, "%s.configMap", path)
	}
	if s := v.Secret; s != nil {
		n.add(kindSecret, s.SecretName, s.Optional, "%s.secret", path)
	}
	if v.Projected == nil {
		return
	}
	for i := range v.Projected.Sources {
		if c := v.Projected.Sources[i].ConfigMap; c != nil {
			n.add(kindConfigMap, c.Name, c.Optional, "%s.projected.sources[%d].configMap", path, i)
		}
		if s := v.Projected.Sources[i].Secret; s != nil {
			n.add(kindSecret, s.Name, s.Optional, "%s.projected.sources[%d].secret", path, i)
		}
	}
}

func (n *needs) container(path string, c *corev1.Container) {
	for i := range c.EnvFrom {
		if r := c.EnvFrom[i].ConfigMapRef; r != nil {
			n.add(kindConfigMap, r.Name, r.Optional, "%s.envFrom[%d].configMapRef", path, i)
		}
		if r := c.EnvFrom[i].SecretRef; r != nil {
			n.add(kindSecret, r.Name, r.Optional, "%s.envFrom[%d].secretRef", path, i)
		}
	}
	for i := range c.Env {
		if c.Env[i].ValueFrom == nil {
			continue
		}
		if r := c.Env[i].ValueFrom.ConfigMapKeyRef; r != nil {
			n.add(kindConfigMap, r.Name, r.Optional, "%s.env[%d].valueFrom.configMapKeyRef", path, i)
		}
		if r := c.Env[i].ValueFrom.SecretKeyRef; r != nil {
			n.add(kindSecret, r.Name, r.Optional, "%s.env[%d].valueFrom.secretKeyRef", path, i)
		}
	}
}
