package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime/server"
)

// accepting asks a handler for a path in a type.
func accepting(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	h.ServeHTTP(w, r)
	return w
}

// zpages is a server that has both pages, in a test in fake time.
func zpages(t *testing.T) http.Handler {
	t.Helper()
	s, err := server.New(server.Config{Protect: server.Open, Pages: server.Pages{
		Metrics: said("metrics"),
		Flags:   func() map[string]string { return map[string]string{"v": "2", "config": "/etc/k.yaml"} },
		Status:  &server.Status{Started: time.Now().UTC().Add(-time.Hour - 2*time.Minute - 3*time.Second), Version: "1.37.2+nodekit.1", Emulates: "1.37"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s.Handler()
}

func TestZpagesAsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := zpages(t)
		for path, want := range map[string][]string{
			"/statusz": {
				"\nkubelet statusz\nWarning: ", "Started: Fri Dec 31 22:57:57 UTC 1999\n", "Up: 1 hr 02 min 03 sec\nGo version: " + goruntime.Version() + "\n",
				"Binary version: 1.37.2+nodekit.1\nEmulation version: 1.37\n", " /exec /flagz /healthz ", " /statusz\n",
			},
			"/flagz": {"\nkubelet flagz\nWarning: ", "\nconfig=/etc/k.yaml\nv=2\n"},
		} {
			for _, accept := range []string{"", "*/*", "text/*;q=0.1", "text/plain", "application/json, text/plain;q=0.5", "rubbish;;, */*"} {
				w := accepting(h, path, accept)
				for _, part := range want {
					if !strings.Contains(w.Body.String(), part) {
						t.Errorf("GET %s as %q is %q, want %q", path, accept, w.Body, part)
					}
				}
				if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
					t.Errorf("GET %s as %q is %s", path, accept, got)
				}
			}
		}
	})
}

func TestZpagesAsObjects(t *testing.T) {
	flags := map[string]any{"v": "2", "config": "/etc/k.yaml"}
	for _, tt := range []struct {
		name, path, accept string
		old                bool
		want               map[string]any
	}{
		{"flags", "/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io", false, map[string]any{
			"kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1", "metadata": map[string]any{"name": "kubelet"}, "flags": flags,
		}},
		{"old flags", "/flagz", "text/plain;q=0.5,application/yaml;as=Flagz;v=v1alpha1;g=config.k8s.io", true, map[string]any{
			"kind": "Flagz", "apiVersion": "config.k8s.io/v1alpha1", "metadata": map[string]any{"name": "kubelet"}, "flags": flags,
		}},
		{"status", "/statusz", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io", false, map[string]any{
			"kind": "Statusz", "apiVersion": "config.k8s.io/v1beta1", "metadata": map[string]any{"name": "kubelet"},
			"startTime": "1999-12-31T22:57:57Z", "uptimeSeconds": 3723.0, "goVersion": goruntime.Version(),
			"binaryVersion": "1.37.2+nodekit.1", "emulationVersion": "1.37",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := accepting(zpages(t), tt.path, tt.accept)
				var got map[string]any
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatalf("%v: %d %q", err, w.Code, w.Body)
				}
				if paths, _ := got["paths"].([]any); tt.path == "/statusz" && len(paths) < 5 {
					t.Errorf("paths are %v", paths)
				}
				delete(got, "paths")
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("object (-want +got):\n%s", diff)
				}
				if warned := w.Header().Get("Warning") != ""; warned != tt.old {
					t.Errorf("is called deprecated: %t, want %t", warned, tt.old)
				}
			})
		})
	}
}

func TestZpagesThatCannotBeHad(t *testing.T) {
	h := zpages(t)
	for _, accept := range []string{
		"application/json", "application/json;as=Flagz;v=v1;g=config.k8s.io", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
		"image/png", "text/plain;as=Flagz", "text/plain;q=0", "rubbish;;",
	} {
		if w := accepting(h, "/flagz", accept); w.Code != http.StatusNotAcceptable || !strings.Contains(w.Body.String(), "as=Flagz;v=v1beta1;g=config.k8s.io") {
			t.Errorf("as %q: %d %q", accept, w.Code, w.Body)
		}
	}
	s, err := server.New(server.Config{Protect: server.Open})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/flagz", "/statusz"} {
		if code, _ := ask(s.Handler(), path); code != http.StatusNotFound {
			t.Errorf("%s of a server that has none is %d, want 404", path, code)
		}
	}
}

func FuzzZpageAccept(f *testing.F) {
	for _, accept := range []string{"", "*/*", "text/plain;q=0.5,application/json;as=Flagz;v=v1beta1;g=config.k8s.io", ";;,", "a/b;q=NaN"} {
		f.Add(accept)
	}
	s, err := server.New(server.Config{Protect: server.Open, Pages: server.Pages{Flags: func() map[string]string { return map[string]string{"v": "2"} }}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		if w := accepting(s.Handler(), "/flagz", accept); w.Code != http.StatusOK && w.Code != http.StatusNotAcceptable {
			t.Errorf("as %q: %d", accept, w.Code)
		}
	})
}
