package staticpods

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// The kinds of objects that static pods may refer to.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
)

// objectName names an object that stands beside the pods.
type objectName struct{ kind, namespace, name string }

func (n objectName) String() string { return n.kind + " " + n.namespace + "/" + n.name }

// local is a ConfigMap or a Secret of a file: *corev1.ConfigMap or *corev1.Secret.
type local metav1.Object

func nameOf(o local) objectName {
	n := objectName{kind: kindConfigMap, namespace: o.GetNamespace(), name: o.GetName()}
	if _, ok := o.(*corev1.Secret); ok {
		n.kind = kindSecret
	}
	return n
}

// object makes the ConfigMap or Secret of one document, or returns what is wrong with
// it.
func (d decoder) object(doc strictyaml.Document, kind string) (o local, wrong, warnings []Problem) {
	o = &corev1.ConfigMap{}
	if kind == kindSecret {
		o = &corev1.Secret{}
	}
	wrong, warnings = d.compare(doc, o)
	if len(wrong) > 0 {
		return nil, append(wrong, warnings...), nil
	}
	if err := doc.Decode(o); err != nil {
		return nil, []Problem{{Line: doc.Line, Message: err.Error()}}, nil
	}
	var vain, found findings
	switch o := o.(type) {
	case *corev1.ConfigMap:
		dropForeignMeta(&vain, &o.ObjectMeta)
		validateConfigMap(&found, o)
		if o.Immutable != nil {
			vain.add("immutable", "has no effect on a manifest: the file says what the object is")
			o.Immutable = nil
		}
	case *corev1.Secret:
		dropForeignMeta(&vain, &o.ObjectMeta)
		setDefault(&o.Type, corev1.SecretTypeOpaque)
		mergeStrings(o)
		validateSecret(&found, o)
		if o.Immutable != nil {
			vain.add("immutable", "has no effect on a manifest: the file says what the object is")
			o.Immutable = nil
		}
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(corev1.NamespaceDefault)
	}
	validateObjectMeta(&found, o)
	if len(found) > 0 {
		return nil, append(withLines(doc, found), warnings...), nil
	}
	return o, nil, append(warnings, withLines(doc, vain)...)
}

// mergeStrings moves stringData to data, as the API server does.
func mergeStrings(s *corev1.Secret) {
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func validateObjectMeta(f *findings, o local) {
	if o.GetName() == "" {
		f.add("metadata.name", "required")
	} else {
		f.addAll("metadata.name", validation.IsDNS1123Subdomain(o.GetName()))
	}
	f.addAll("metadata.namespace", validation.IsDNS1123Label(o.GetNamespace()))
}

// validateConfigMap checks what the API server checks
// (https://kubernetes.io/docs/concepts/configuration/configmap/).
func validateConfigMap(f *findings, c *corev1.ConfigMap) {
	size := 0
	for key, value := range c.Data {
		validateKey(f, "data", key)
		size += len(value)
		if _, both := c.BinaryData[key]; both {
			f.add("binaryData["+key+"]", "is in data, too")
		}
	}
	for key, value := range c.BinaryData {
		validateKey(f, "binaryData", key)
		size += len(value)
	}
	validateSize(f, size)
}

func validateSecret(f *findings, s *corev1.Secret) {
	size := 0
	for key, value := range s.Data {
		validateKey(f, "data", key)
		size += len(value)
	}
	validateSize(f, size)
}

func validateKey(f *findings, field, key string) {
	f.addAll(fmt.Sprintf("%s[%s]", field, key), validation.IsConfigMapKey(key))
}

func validateSize(f *findings, size int) {
	if size > corev1.MaxSecretSize {
		f.add("", "holds %d bytes, at most %d are allowed", size, corev1.MaxSecretSize)
	}
}

// objects are the ConfigMaps and Secrets of all files, each of the first file in the
// order of names that has it.
type objects struct {
	of   map[objectName]*file
	list []local
}

// add takes in those of a file. It returns a problem for each that another file has.
func (o *objects) add(f *file) []Problem {
	var taken []Problem
	for _, object := range f.good.objects {
		name := nameOf(object)
		if first := o.of[name]; first != nil {
			taken = append(taken, Problem{Field: name.String(), Message: fmt.Sprintf("is taken by %s, which sorts first", first.entry.path)})
			continue
		}
		o.of[name] = f
		o.list = append(o.list, object)
	}
	return taken
}

// sameObjects reports whether two lists hold the very same objects.
func sameObjects(a, b []local) bool {
	return slices.EqualFunc(a, b, func(x, y local) bool { return x == y })
}

// split sorts objects by kind.
func split(list []local) (configMaps []*corev1.ConfigMap, secrets []*corev1.Secret) {
	for _, o := range list {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			configMaps = append(configMaps, o)
		case *corev1.Secret:
			secrets = append(secrets, o)
		}
	}
	return configMaps, secrets
}
