package proxier

import "fmt"

// Problem is something in an API object that cannot be honoured as written. The
// rest of the object, and every other object, is programmed all the same.
type Problem struct {
	// Kind is "Service" or "EndpointSlice".
	Kind string
	// Namespace and Name name the object.
	Namespace string
	Name      string
	// Field is the path of the field in the object, such as "spec.externalIPs[1]".
	Field string
	// Reason says what is wrong and what is done instead.
	Reason string
}

// String returns the problem as one line for a log.
func (p Problem) String() string {
	return fmt.Sprintf("%s %s/%s: %s: %s", p.Kind, p.Namespace, p.Name, p.Field, p.Reason)
}

// problems collects what is wrong with one object while it is parsed.
type problems struct {
	kind, namespace, name string
	list                  []Problem
}

func (p *problems) add(field, format string, args ...any) {
	p.list = append(p.list, Problem{
		Kind: p.kind, Namespace: p.namespace, Name: p.name,
		Field: field, Reason: fmt.Sprintf(format, args...),
	})
}
