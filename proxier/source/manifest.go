package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// Manifest is the content of one file.
type Manifest struct {
	Services       []*corev1.Service
	EndpointSlices []*discoveryv1.EndpointSlice
	// Problems are what does not keep the file from being used: an object of
	// another kind, a Service that nothing can serve. Path is empty.
	Problems []Problem
}

// Decode reads a file of YAML or JSON documents: Services, EndpointSlices and lists
// of them. What the API server fills in when it stores an object is filled in. An
// unknown field or one that is set twice is an error, as it is for kubectl; the
// error is a *DecodeError.
func Decode(data []byte) (*Manifest, error) {
	docs, err := strictyaml.Parse(data)
	if err != nil {
		if syntax, ok := errors.AsType[*strictyaml.SyntaxError](err); ok {
			return nil, &DecodeError{Line: syntax.Line, Reason: syntax.Message}
		}
		return nil, &DecodeError{Reason: err.Error()}
	}
	m := &Manifest{}
	for _, doc := range docs {
		if err := m.add(place{doc: doc}, doc); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// place is where an object stands: a document, or an item of the list that a
// document is.
type place struct {
	doc    strictyaml.Document
	prefix string // "items[2]." for an item
}

func (p place) fail(field, format string, args ...any) *DecodeError {
	return &DecodeError{Line: p.line(field), Field: p.prefix + field, Reason: fmt.Sprintf(format, args...)}
}

func (p place) line(field string) int {
	return p.doc.LineOf(strings.TrimSuffix(p.prefix+field, "."))
}

// header is what tells one kind of object from another.
type header struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

func (m *Manifest) add(p place, obj strictyaml.Document) error {
	var h header
	if err := obj.Decode(&h); err != nil {
		return p.fail("", "is not an object with apiVersion and kind: %v", err)
	}
	switch h.APIVersion + " " + h.Kind {
	case "v1 Service":
		return m.addService(p, obj)
	case "discovery.k8s.io/v1 EndpointSlice":
		return m.addSlice(p, obj)
	case "v1 List", "v1 ServiceList", "discovery.k8s.io/v1 EndpointSliceList":
		if p.prefix == "" {
			return m.addItems(p, h.Items)
		}
	}
	if h.APIVersion == "" || h.Kind == "" {
		return p.fail("", "apiVersion and kind must be set")
	}
	m.Problems = append(m.Problems, Problem{
		Line: p.line("kind"), Field: p.prefix + "kind",
		Reason: fmt.Sprintf("%s %s is ignored: only v1 Service and discovery.k8s.io/v1 EndpointSlice are read", h.APIVersion, h.Kind),
	})
	return nil
}

func (m *Manifest) addItems(p place, items []json.RawMessage) error {
	for i, raw := range items {
		at := place{doc: p.doc, prefix: fmt.Sprintf("items[%d].", i)}
		docs, err := strictyaml.Parse(raw)
		if err != nil || len(docs) != 1 {
			return at.fail("", "is not an object")
		}
		if err := m.add(at, docs[0]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manifest) addService(p place, obj strictyaml.Document) error {
	svc := &corev1.Service{}
	if err := decodeStrict(p, obj, svc); err != nil {
		return err
	}
	if svc.Name == "" {
		return p.fail("metadata.name", "must be set")
	}
	defaultService(svc)
	if svc.Spec.ClusterIP == "" && svc.Spec.Type != corev1.ServiceTypeExternalName {
		m.Problems = append(m.Problems, Problem{
			Line: p.line("spec.clusterIP"), Field: p.prefix + "spec.clusterIP",
			Reason: fmt.Sprintf("Service %s/%s is not served: it has none and nothing here allocates one", svc.Namespace, svc.Name),
		})
	}
	m.Services = append(m.Services, svc)
	return nil
}

func (m *Manifest) addSlice(p place, obj strictyaml.Document) error {
	es := &discoveryv1.EndpointSlice{}
	if err := decodeStrict(p, obj, es); err != nil {
		return err
	}
	if es.Name == "" {
		return p.fail("metadata.name", "must be set")
	}
	defaultSlice(es)
	if es.Labels[discoveryv1.LabelServiceName] == "" {
		m.Problems = append(m.Problems, Problem{
			Line: p.line("metadata.labels"), Field: p.prefix + "metadata.labels",
			Reason: fmt.Sprintf("EndpointSlice %s/%s has no effect without the label %s", es.Namespace, es.Name, discoveryv1.LabelServiceName),
		})
	}
	m.EndpointSlices = append(m.EndpointSlices, es)
	return nil
}

func decodeStrict(p place, obj strictyaml.Document, into any) error {
	for _, issue := range obj.Check(into) {
		return p.fail(issue.Field, "%s", issue.Message)
	}
	if err := obj.Decode(into); err != nil {
		return p.fail("", "%v", err)
	}
	return nil
}
