package staticpods

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// MaxBytes is the largest manifest that is read: the kubelet's limit of 10 MiB.
const MaxBytes = 10 << 20

// Manifest is a file's pod, ready to run on the node, and the objects that stand beside
// it.
type Manifest struct {
	// Pod has the defaults of the API and those of a static pod. It is nil in a file that
	// holds ConfigMaps and Secrets only.
	Pod *corev1.Pod
	// ConfigMaps and Secrets are those of the file, for the pods of the node.
	ConfigMaps []*corev1.ConfigMap
	Secrets    []*corev1.Secret
	// Warnings are what the file holds in vain: unknown fields, fields set twice,
	// values that a static pod gets from the node, further documents.
	Warnings []Problem
	// digest names the content of the pod: see identity.go.
	digest string
	// objects are the ConfigMaps and Secrets in the order of the file, needs the objects
	// that the pod refers to.
	objects []local
	needs   []need
}

// Decode reads a manifest in YAML or JSON for a node of that name. The file holds one
// Pod of version v1, ConfigMaps and Secrets in any number, or both; other documents are
// passed over with a warning. The error is an *InvalidError with what is wrong, not
// just the first problem, unknown fields included.
//
// What the pod refers to has to stand in the same file. A Source also looks into the
// files beside it.
//
// Decode does no I/O, and the same bytes always give the same pod. It does not
// set the annotation config.seen, which a Source adds.
func Decode(data []byte, node string) (Manifest, error) {
	m, err := decoder{node: node}.decode(data)
	if err != nil {
		return Manifest{}, err
	}
	own := func(name objectName) bool {
		return slices.ContainsFunc(m.objects, func(o local) bool { return nameOf(o) == name })
	}
	if missing := unmet(m.needs, own); len(missing) > 0 {
		return Manifest{}, invalid(missing...)
	}
	return m, nil
}

// decoder holds what decoding depends on besides the bytes.
type decoder struct {
	node string
	// remote is true for a pod of a URL.
	remote bool
	// strict makes errors of unknown fields and of fields set twice.
	strict bool
}

func (d decoder) decode(data []byte) (Manifest, error) {
	if len(data) > MaxBytes {
		return Manifest{}, invalid(Problem{Message: fmt.Sprintf("is larger than %d bytes", MaxBytes)})
	}
	docs, err := strictyaml.Parse(data)
	if err != nil {
		return Manifest{}, syntaxError(err)
	}
	c, err := choose(docs)
	if err != nil {
		return Manifest{}, err
	}
	m, wrong := d.pod(c.pod)
	for _, doc := range c.objects {
		o, bad, warnings := d.object(doc.Document, doc.kind)
		wrong, m.Warnings = append(wrong, bad...), append(m.Warnings, warnings...)
		if o == nil {
			continue
		}
		if twice := slices.ContainsFunc(m.objects, func(p local) bool { return nameOf(p) == nameOf(o) }); twice {
			wrong = append(wrong, Problem{Line: doc.Line, Message: fmt.Sprintf("a second %s in one file", nameOf(o))})
		}
		m.objects = append(m.objects, o)
	}
	if len(wrong) > 0 {
		return Manifest{}, invalid(wrong...)
	}
	m.ConfigMaps, m.Secrets = split(m.objects)
	m.Warnings = append(m.Warnings, c.others...)
	slices.SortStableFunc(m.Warnings, byLine)
	return m, nil
}

func invalid(problems ...Problem) *InvalidError {
	slices.SortStableFunc(problems, byLine)
	return &InvalidError{Problems: problems}
}

func byLine(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field))
}

func syntaxError(err error) *InvalidError {
	p := Problem{Message: err.Error()}
	if syntax, ok := errors.AsType[*strictyaml.SyntaxError](err); ok {
		p = Problem{Line: syntax.Line, Message: "not YAML or JSON: " + syntax.Message}
	}
	return invalid(p)
}

// choice is what of a file is of use.
type choice struct {
	// pod is the Pod of the file, nil if it has none.
	pod     *strictyaml.Document
	objects []kindDocument
	// others are problems of documents that are passed over.
	others []Problem
}

// kindDocument is a ConfigMap or a Secret.
type kindDocument struct {
	strictyaml.Document
	kind string
}

// choose finds the Pod of a file and the objects beside it.
func choose(docs []strictyaml.Document) (choice, error) {
	if len(docs) == 0 {
		return choice{}, invalid(Problem{Message: "holds no object; to stop a pod, remove its file"})
	}
	var c choice
	for i, doc := range docs {
		var t metav1.TypeMeta
		err := doc.Decode(&t)
		switch {
		case err == nil && t.Kind == "Pod" && t.APIVersion == "v1" && c.pod == nil:
			c.pod = &docs[i]
		case err == nil && (t.Kind == kindConfigMap || t.Kind == kindSecret) && t.APIVersion == "v1":
			c.objects = append(c.objects, kindDocument{doc, t.Kind})
		default:
			c.others = append(c.others, otherDocument(doc, t, err))
		}
	}
	if c.pod == nil && len(c.objects) == 0 {
		return choice{}, invalid(c.others...)
	}
	return c, nil
}

// otherDocument says why a document is neither the pod of its file nor an object beside
// it.
func otherDocument(doc strictyaml.Document, t metav1.TypeMeta, err error) Problem {
	p := Problem{Line: doc.Line}
	switch {
	case err != nil:
		p.Message = "not an object of the API; it must begin with apiVersion: v1 and kind: Pod"
	case t.Kind == "" || t.APIVersion == "":
		p.Message = "without apiVersion or kind; write apiVersion: v1 and kind: Pod"
	case t.Kind == "Pod" && t.APIVersion == "v1":
		p.Message = "a second Pod in one file is not run; give it a file of its own"
	case t.Kind == "Pod" || t.Kind == kindConfigMap || t.Kind == kindSecret:
		p.Line, p.Field = doc.LineOf("apiVersion"), "apiVersion"
		p.Message = fmt.Sprintf("is %q, must be v1", t.APIVersion)
	default:
		p.Line, p.Field = doc.LineOf("kind"), "kind"
		p.Message = fmt.Sprintf("is %q, must be Pod, ConfigMap or Secret; one pod in each file", t.Kind)
	}
	return p
}

// pod makes the pod of a document, if there is one, or returns what is wrong with it.
func (d decoder) pod(from *strictyaml.Document) (Manifest, []Problem) {
	if from == nil {
		return Manifest{}, nil
	}
	doc, pod := *from, &corev1.Pod{}
	wrong, warnings := d.compare(doc, pod)
	if len(wrong) > 0 {
		return Manifest{}, append(wrong, warnings...)
	}
	if err := doc.Decode(pod); err != nil {
		return Manifest{}, []Problem{{Line: doc.Line, Message: err.Error()}}
	}
	digest, err := digestOf(pod, doc.JSON(), d.node)
	if err != nil {
		return Manifest{}, []Problem{{Line: doc.Line, Message: err.Error()}}
	}

	var vain, found findings
	if pod.Name == "" {
		found.add("metadata.name", "required")
	}
	dropForeign(&vain, pod, d.node)
	defaultPod(pod)
	makeStatic(pod, digest, origin{node: d.node, remote: d.remote})
	warnPriority(&vain, pod)
	warnRelativeMounts(&vain, pod)
	if pod.Name != "" {
		validatePod(&found, pod)
	}
	validateStatic(&found, pod)
	if len(found) > 0 { // an unknown field often is the one that is missed
		return Manifest{}, append(withLines(doc, found), warnings...)
	}
	return Manifest{Pod: pod, Warnings: append(warnings, withLines(doc, vain)...), digest: digest, needs: needsOf(pod, doc)}, nil
}

// compare holds the document against the type it is to have.
func (d decoder) compare(doc strictyaml.Document, into any) (wrong, warnings []Problem) {
	for _, issue := range doc.Check(into) {
		p := Problem{Line: issue.Line, Field: issue.Field, Message: issue.Message}
		if issue.Kind == strictyaml.WrongType || d.strict {
			wrong = append(wrong, p)
			continue
		}
		warnings = append(warnings, p)
	}
	return wrong, warnings
}

func withLines(doc strictyaml.Document, found findings) []Problem {
	for i := range found {
		found[i].Line = doc.LineOf(found[i].Field)
	}
	return found
}
