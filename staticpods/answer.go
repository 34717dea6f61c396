package staticpods

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// answer is what a URL gave.
type answer struct {
	items []item
	// warnings are about what it holds besides its pods.
	warnings []Problem
}

// item is one pod of an answer.
type item struct {
	// path is the place in the answer, like "items[2]"; empty: the answer is the pod.
	path string
	// name is the full name of the pod, also of one that is invalid; empty: it cannot be
	// read.
	name string
	result
}

// bad reports whether the item holds no pod that could run.
func (i *item) bad() bool { return i.pod == nil }

// answer reads the answer of a URL: a Pod or a PodList of version v1. Otherwise it
// returns what is wrong.
func (d decoder) answer(data []byte) (answer, []Problem) {
	if len(data) > MaxBytes {
		return answer{}, []Problem{{Message: fmt.Sprintf("is larger than %d bytes", MaxBytes)}}
	}
	docs, err := strictyaml.Parse(data)
	if err != nil {
		return answer{}, syntaxError(err).Problems
	}
	if len(docs) == 0 {
		return answer{}, []Problem{{Message: "holds no object; for no pods, answer with a PodList without items"}}
	}
	var t metav1.TypeMeta
	doc := docs[0]
	err = doc.Decode(&t)
	var a answer
	switch {
	case err == nil && t.APIVersion == "v1" && t.Kind == "Pod":
		a.items = []item{d.item(doc, "")}
	case err == nil && t.APIVersion == "v1" && t.Kind == "PodList":
		list, err := doc.Items("items")
		if err != nil {
			return answer{}, []Problem{{Line: doc.LineOf("items"), Field: "items", Message: "is not a list"}}
		}
		for i, sub := range list {
			a.items = append(a.items, d.item(sub, at("items", i)))
		}
	default:
		return answer{}, []Problem{{Line: doc.Line, Message: fmt.Sprintf(
			"is kind %q of version %q; it must be a Pod or a PodList of version v1", t.Kind, t.APIVersion)}}
	}
	for _, more := range docs[1:] {
		a.warnings = append(a.warnings, Problem{Line: more.Line, Message: "a second document is not used; several pods make a PodList"})
	}
	return a, nil
}

// item makes the pod of a document of an answer.
func (d decoder) item(doc strictyaml.Document, path string) item {
	i := item{path: path, name: d.nameOf(doc)}
	if wrong := checkKind(doc); len(wrong) > 0 {
		i.problems = wrong
		return i
	}
	m, wrong := d.pod(&doc)
	// What stands beside manifests is for the pods of files.
	wrong = append(wrong, unmet(m.needs, func(objectName) bool { return false })...)
	if len(wrong) > 0 {
		i.problems = invalid(wrong...).Problems
		return i
	}
	i.result = resultOf(nil, m, nil)
	return i
}

// checkKind says what is wrong with the kind of an item, which may be left out.
func checkKind(doc strictyaml.Document) []Problem {
	var t metav1.TypeMeta
	err := doc.Decode(&t)
	switch {
	case err != nil || string(doc.JSON()) == "null":
		return []Problem{{Line: doc.Line, Message: "not an object; an item of a PodList is a Pod"}}
	case t.Kind != "" && t.Kind != "Pod":
		return []Problem{{Line: doc.LineOf("kind"), Field: "kind", Message: fmt.Sprintf("is %q, must be Pod", t.Kind)}}
	case t.APIVersion != "" && t.APIVersion != "v1":
		return []Problem{{Line: doc.LineOf("apiVersion"), Field: "apiVersion", Message: fmt.Sprintf("is %q, must be v1", t.APIVersion)}}
	}
	return nil
}

// nameOf returns the full name that the pod of a document has on the node, whatever else
// is wrong with it.
func (d decoder) nameOf(doc strictyaml.Document) string {
	var named struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if err := doc.Decode(&named); err != nil || named.Metadata.Name == "" {
		return ""
	}
	m := named.Metadata
	if m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
	return m.Namespace + "/" + m.Name + "-" + strings.ToLower(d.node)
}
