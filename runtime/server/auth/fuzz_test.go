package auth_test

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/runtime/server/auth"
)

// FuzzPaths: whatever a path looks like, a right to something harmless is none to anything
// outside of it.
func FuzzPaths(f *testing.F) {
	for _, p := range []string{"/pods", "/metrics/cadvisor", "/metrics/../exec/a/b/c", "//", "", "/healthz/%2e%2e/run", "/stats/summary/", "/logs/./x"} {
		f.Add(p)
	}
	prefix := map[string][]string{
		"pods": {"/pods", "/runningpods", "/allocatedPods"}, "healthz": {"/healthz"}, "configz": {"/configz", "/flagz"},
		"stats": {"/stats"}, "metrics": {"/metrics"}, "log": {"/logs"}, "checkpoint": {"/checkpoint"}, "statusz": {"/statusz"},
	}
	f.Fuzz(func(t *testing.T, p string) {
		subs := auth.Subresources(p)
		if len(subs) == 0 {
			t.Fatal("nobody is asked")
		}
		clean := path.Clean(p)
		for _, sub := range subs {
			if sub == "proxy" {
				continue
			}
			within := false
			for _, dir := range prefix[sub] {
				within = within || clean == dir || strings.HasPrefix(clean, dir+"/")
			}
			if !within {
				t.Errorf("the right to %s is one to %q", sub, p)
			}
		}
	})
}

// FuzzHeaders: no header brings down the filter, and none but those with the token are
// those of its owner.
func FuzzHeaders(f *testing.F) {
	f.Add("Bearer good", "", "")
	f.Add("", "websocket", "v5.channel.k8s.io,base64url.bearer.authorization.k8s.io.Z29vZA")
	f.Add("bearer", "websocket", "base64url.bearer.authorization.k8s.io.,")
	f.Add("Basic Z29vZA==", "", "x")
	f.Fuzz(func(t *testing.T, authorization, upgrade, protocols string) {
		fl := protect(t, func(c *auth.Config) { c.Mode, c.Access = auth.AlwaysAllow, nil })
		r := httptest.NewRequest("GET", "/pods", http.NoBody)
		r.Header = http.Header{"Authorization": {authorization}, "Upgrade": {upgrade}, "Connection": {"Upgrade"}, "Sec-Websocket-Protocol": {protocols}}
		got := fl.send(r)
		has := strings.Contains(authorization, "good") || strings.Contains(protocols, "Z29vZ")
		if got == "200 alice" && !has {
			t.Errorf("authorization %q, subprotocols %q: %s", authorization, protocols, got)
		}
	})
}
