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

// Manifest is a pod as its file describes it, ready to run on the node.
type Manifest struct {
	// Pod has the defaults of the API and those of a static pod. It is never nil.
	Pod *corev1.Pod
	// Warnings are what the file holds in vain: unknown fields, fields set twice,
	// values that a static pod gets from the node, further documents.
	Warnings []Problem
	// digest names the content: see identity.go.
	digest string
}

// Decode reads a manifest in YAML or JSON for a node of that name. The file holds
// one Pod of version v1; other documents are passed over with a warning. The
// error is an *InvalidError with what is wrong, not just the first problem, unknown
// fields included.
//
// Decode does no I/O, and the same bytes always give the same pod. It does not
// set the annotation config.seen, which a Source adds.
func Decode(data []byte, node string) (Manifest, error) {
	return decoder{node: node}.decode(data)
}

// decoder holds what decoding depends on besides the bytes.
type decoder struct {
	node string
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
	doc, others, err := choose(docs)
	if err != nil {
		return Manifest{}, err
	}
	m, err := d.manifest(doc)
	if err != nil {
		return Manifest{}, err
	}
	m.Warnings = append(m.Warnings, others...)
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

// choose returns the one Pod of a file, and a warning for each other document.
func choose(docs []strictyaml.Document) (strictyaml.Document, []Problem, error) {
	if len(docs) == 0 {
		return strictyaml.Document{}, nil, invalid(Problem{Message: "holds no object; to stop a pod, remove its file"})
	}
	found := -1
	var others []Problem
	for i, doc := range docs {
		var t metav1.TypeMeta
		err := doc.Decode(&t)
		switch {
		case err == nil && t.Kind == "Pod" && t.APIVersion == "v1" && found < 0:
			found = i
		default:
			others = append(others, otherDocument(doc, t, err))
		}
	}
	if found < 0 {
		return strictyaml.Document{}, nil, invalid(others...)
	}
	return docs[found], others, nil
}

// otherDocument says why a document is not the pod of its file.
func otherDocument(doc strictyaml.Document, t metav1.TypeMeta, err error) Problem {
	p := Problem{Line: doc.Line}
	switch {
	case err != nil:
		p.Message = "not an object of the API; it must begin with apiVersion: v1 and kind: Pod"
	case t.Kind == "" || t.APIVersion == "":
		p.Message = "without apiVersion or kind; write apiVersion: v1 and kind: Pod"
	case t.Kind == "Pod" && t.APIVersion == "v1":
		p.Message = "a second Pod in one file is not run; give it a file of its own"
	case t.Kind == "Pod":
		p.Line, p.Field = doc.LineOf("apiVersion"), "apiVersion"
		p.Message = fmt.Sprintf("is %q, must be v1", t.APIVersion)
	case t.Kind == "ConfigMap" || t.Kind == "Secret":
		p.Line, p.Field = doc.LineOf("kind"), "kind"
		p.Message = fmt.Sprintf("a %s beside a static pod is not supported; it is not used", t.Kind)
	default:
		p.Line, p.Field = doc.LineOf("kind"), "kind"
		p.Message = fmt.Sprintf("is %q, must be Pod; one pod in each file", t.Kind)
	}
	return p
}

// manifest makes the pod of one document.
func (d decoder) manifest(doc strictyaml.Document) (Manifest, error) {
	pod := &corev1.Pod{}
	wrong, warnings := d.compare(doc, pod)
	if len(wrong) > 0 {
		return Manifest{}, invalid(append(wrong, warnings...)...)
	}
	if err := doc.Decode(pod); err != nil {
		return Manifest{}, invalid(Problem{Line: doc.Line, Message: err.Error()})
	}
	digest, err := digestOf(pod, doc.JSON(), d.node)
	if err != nil {
		return Manifest{}, invalid(Problem{Line: doc.Line, Message: err.Error()})
	}

	var vain, found findings
	if pod.Name == "" {
		found.add("metadata.name", "required")
	}
	dropForeign(&vain, pod, d.node)
	defaultPod(pod)
	makeStatic(pod, d.node, digest)
	warnPriority(&vain, pod)
	warnRelativeMounts(&vain, pod)
	if pod.Name != "" {
		validatePod(&found, pod)
	}
	validateStatic(&found, pod)
	if len(found) > 0 { // an unknown field often is the one that is missed
		return Manifest{}, invalid(append(withLines(doc, found), warnings...)...)
	}
	return Manifest{Pod: pod, Warnings: append(warnings, withLines(doc, vain)...), digest: digest}, nil
}

// compare holds the document against the type of a pod.
func (d decoder) compare(doc strictyaml.Document, pod *corev1.Pod) (wrong, warnings []Problem) {
	for _, issue := range doc.Check(pod) {
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
