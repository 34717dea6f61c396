package auth

import (
	"net/http"
	"path"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// verb is what a method is called in a review. Those without a name are allowed to
// nobody but who may do everything.
func verb(method string) string {
	switch method {
	case http.MethodGet:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// Subresources returns the subresources of the node any of which allows a request of a
// path, in the order in which they are asked about
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/). Paths
// that are not clean, as with "..", belong to none but proxy, which allows everything: what
// a server makes of them is not known here.
func Subresources(urlPath string) []string {
	if clean := path.Clean(urlPath); clean != urlPath && clean+"/" != urlPath {
		return []string{"proxy"}
	}
	within := func(dir string) bool { return urlPath == dir || strings.HasPrefix(urlPath, dir+"/") }
	switch {
	case within("/pods"), within("/runningpods"), within("/allocatedPods"):
		return []string{"pods", "proxy"}
	case within("/healthz"):
		return []string{"healthz", "proxy"}
	case within("/configz"):
		return []string{"configz", "proxy"}
	case within("/stats"):
		return []string{"stats"}
	case within("/metrics"):
		return []string{"metrics"}
	case within("/logs"):
		return []string{"log"}
	case within("/checkpoint"):
		return []string{"checkpoint"}
	case within("/statusz"):
		return []string{"statusz"}
	case within("/flagz"):
		return []string{"configz"}
	}
	return []string{"proxy"}
}

// question asks whether a user may do something with a subresource of the node.
func (f *Filter) question(u User, verb, subresource string) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: resource, Subresource: subresource, Name: f.cfg.Node,
		},
	}
	if u.Extra != nil {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(u.Extra))
		for name, values := range u.Extra {
			spec.Extra[name] = values
		}
	}
	return spec
}

// resource is what the API of a node is part of.
const resource = "nodes"
