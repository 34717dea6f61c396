package record

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Request is what the API server decides about when it authorizes a request: who
// may do what to which resource
// (https://kubernetes.io/docs/reference/access-authn-authz/authorization/).
type Request struct {
	Verb string
	// Resource is "pods/status" or "leases.coordination.k8s.io"; empty for a path
	// that is no resource.
	Resource string
	// Path is set where Resource is empty.
	Path string
	// Scope is "named" for one object, "namespace" for the objects of one, and "all".
	Scope string
	// Fields are the names of the field selector of a list or watch.
	Fields []string
}

// String returns the request on one line, such as "watch pods all spec.nodeName".
func (r Request) String() string {
	what := cmp.Or(r.Resource, r.Path)
	return strings.Join(slices.DeleteFunc(append([]string{r.Verb, what, r.Scope}, r.Fields...),
		func(s string) bool { return s == "" }), " ")
}

// RequestOf reads a request the way the API server does.
func RequestOf(method string, u *url.URL) Request {
	query := u.Query()
	group, rest, ok := splitGroup(u.Path)
	if !ok || len(rest) == 0 {
		return Request{Verb: strings.ToLower(method), Path: u.Path}
	}
	r := Request{Scope: "all"}
	// The resource namespaces has namespaces as its names: only what follows them
	// is in one.
	if rest[0] == "namespaces" && len(rest) > 2 && !slices.Contains([]string{"status", "finalize"}, rest[2]) {
		r.Scope, rest = "namespace", rest[2:]
	}
	resource := rest[0]
	if group != "" {
		resource += "." + group
	}
	if len(rest) > 1 {
		r.Scope = "named"
	}
	if len(rest) > 2 {
		resource = fmt.Sprintf("%s/%s", resource, rest[2])
	}
	r.Resource, r.Verb = resource, verb(method, r.Scope, query)
	if r.Scope != "named" && method == http.MethodGet {
		r.Fields = fieldNames(query.Get("fieldSelector"))
	}
	return r
}

// splitGroup splits /api/v1/… and /apis/GROUP/VERSION/….
func splitGroup(path string) (group string, rest []string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		return "", parts[2:], true
	case len(parts) >= 3 && parts[0] == "apis":
		return parts[1], parts[3:], true
	}
	return "", nil, false
}

func verb(method, scope string, query url.Values) string {
	switch {
	case method == http.MethodGet && (query.Get("watch") == "true" || query.Get("watch") == "1"):
		return "watch"
	case method == http.MethodGet && scope != "named":
		return "list"
	case method == http.MethodDelete && scope != "named":
		return "deletecollection"
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut:
		return "update"
	}
	return strings.ToLower(method) // get, patch, delete
}

func fieldNames(selector string) []string {
	var names []string
	for term := range strings.SplitSeq(selector, ",") {
		if name, _, ok := strings.Cut(term, "="); ok {
			names = append(names, strings.TrimSuffix(name, "!"))
		}
	}
	return names
}
