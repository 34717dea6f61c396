package record_test

import (
	"net/url"
	"testing"

	"github.com/nodekit-go/nodekit/test/record"
)

func TestRequests(t *testing.T) {
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da&watch=true", "watch pods all spec.nodeName"},
		{"GET", "/api/v1/pods?limit=500", "list pods all"},
		{"GET", "/api/v1/namespaces/ns/pods", "list pods namespace"},
		{"GET", "/api/v1/namespaces/ns/pods/x", "get pods named"},
		{"PATCH", "/api/v1/namespaces/ns/pods/x/status", "patch pods/status named"},
		{"DELETE", "/api/v1/namespaces/ns/pods/x", "delete pods named"},
		{"DELETE", "/api/v1/namespaces/ns/pods", "deletecollection pods namespace"},
		{"POST", "/api/v1/namespaces/ns/serviceaccounts/x/token", "create serviceaccounts/token named"},
		{"POST", "/api/v1/namespaces/ns/events", "create events namespace"},
		{"POST", "/apis/events.k8s.io/v1/namespaces/ns/events", "create events.events.k8s.io namespace"},
		{"GET", "/api/v1/namespaces/ns/secrets?fieldSelector=metadata.name%3Dx&watch=1", "watch secrets namespace metadata.name"},
		{"GET", "/api/v1/namespaces", "list namespaces all"},
		{"GET", "/api/v1/namespaces/ns", "get namespaces named"},
		{"PUT", "/api/v1/namespaces/ns/status", "update namespaces/status named"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a", "get leases.coordination.k8s.io named"},
		{"GET", "/apis/node.k8s.io/v1/runtimeclasses?watch=true", "watch runtimeclasses.node.k8s.io all"},
		{"GET", "/version", "get /version"},
		{"GET", "/api", "get /api"},
		{"GET", "/apis/apps", "get /apis/apps"},
		{"HEAD", "/livez/ping", "head /livez/ping"},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := record.RequestOf(tt.method, u).String(); got != tt.want {
			t.Errorf("%s %s = %q, want %q", tt.method, tt.url, got, tt.want)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/ns/pods/x", "watch=true&fieldSelector=a%3Db")
	f.Add("DELETE", "/apis/a/v1/", "")
	f.Add("", "//", "fieldSelector==")
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := record.RequestOf(method, &url.URL{Path: path, RawQuery: query})
		if (r.Resource == "") == (r.Scope != "") {
			t.Errorf("%+v: a resource has a scope, and nothing else has", r)
		}
	})
}
