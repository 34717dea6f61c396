package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func FuzzParsePorts(f *testing.F) {
	for _, q := range []string{"port=80", "port=80,81&port=1", "port=", "port=0", "port=65536", "port=-1", "ports=80", "port=" + strings.Repeat("1,", 2000) + "1"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		ports, err := parsePorts(q)
		if err != nil {
			return
		}
		if len(ports) == 0 || len(ports) > maxPorts {
			t.Errorf("%q names %d ports", query, len(ports))
		}
		for _, p := range ports {
			if p < 1 || p > 65535 {
				t.Errorf("%q names port %d", query, p)
			}
		}
	})
}

// What is plain is read by the routes as it stands, so that who looked at the beginning has
// seen where it goes.
func FuzzPlainPath(f *testing.F) {
	for _, p := range []string{"/pods", "/pods/", "/exec/default/web/app", "/logs/../pods", "//pods", "/a%2fb", "/%2e%2e/x", "/a//b", "/./x", "", "*", "/\xff"} {
		f.Add(p)
	}
	var seen []string
	mux := http.NewServeMux()
	mux.HandleFunc("/{first}", func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.PathValue("first")) })
	mux.HandleFunc("/{first}/{rest...}", func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.PathValue("first")) })
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !plainPath(u) || u.Path == "/" {
			return
		}
		seen = nil
		mux.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}, Host: "node"})
		first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if len(seen) != 1 || seen[0] != first {
			t.Errorf("%q begins with %q and goes to %q", path, first, seen)
		}
	})
}
