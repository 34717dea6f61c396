package source

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// listen serves h on a new unix socket and returns its URL.
func listen(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return "unix://" + path
}

const onePod = `{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[{"metadata":{"name":"a","namespace":"default"},"status":{"podIPs":[{"ip":"10.244.0.1"}]}}]}`

func TestKubeletPods(t *testing.T) {
	for _, etag := range []string{"", `"v1"`} {
		t.Run("etag "+etag, func(t *testing.T) {
			var asked []string
			k, err := newKubelet(listen(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("If-None-Match"))
				if etag != "" && r.Header.Get("If-None-Match") == etag {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set("ETag", etag)
				fmt.Fprint(w, onePod)
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer k.close()
			pods, changed, err := k.pods(t.Context())
			if err != nil || !changed || len(pods) != 1 || pods[0].ips[0].String() != "10.244.0.1" {
				t.Fatalf("pods() = %v, %v, %v, want one pod", pods, changed, err)
			}
			if pods, changed, err := k.pods(t.Context()); err != nil || changed || pods != nil {
				t.Errorf("pods() = %v, %v, %v for the same answer, want no change", pods, changed, err)
			}
			if got, want := strings.Join(asked, ","), "GET /pods ,GET /pods "+etag; got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

func TestKubeletPodsErrors(t *testing.T) {
	tests := []struct {
		name, body string
		status     int
		want       string
	}{
		{name: "not ready", status: http.StatusServiceUnavailable, body: "starting", want: `503 Service Unavailable: "starting"`},
		{name: "unasked 304", status: http.StatusNotModified, want: "304"},
		{name: "not JSON", status: http.StatusOK, body: "<html>", want: "decode pods"},
		{name: "half an answer", status: http.StatusOK, body: onePod[:len(onePod)-10], want: "decode pods"},
		{name: "another object", status: http.StatusOK, body: `{"apiVersion":"v1","kind":"Status","items":[]}`, want: "not a v1 PodList"},
		{name: "no items", status: http.StatusOK, body: `{"apiVersion":"v1","kind":"PodList"}`, want: "no items"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, err := newKubelet(listen(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer k.close()
			_, _, err = k.pods(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "unix:///") {
				t.Errorf("pods() = %v, want an error with %q and the address", err, tt.want)
			}
		})
	}
}

func TestKubeletNoPods(t *testing.T) {
	for _, body := range []string{`{"apiVersion":"v1","kind":"PodList","items":null}`, `{"apiVersion":"v1","kind":"PodList","items":[]}`} {
		if pods, err := decodePods([]byte(body)); err != nil || len(pods) != 0 {
			t.Errorf("decodePods(%s) = %v, %v, want none", body, pods, err)
		}
	}
}

func TestNewKubeletAddress(t *testing.T) {
	for at, want := range map[string]string{
		"unix:///run/kubelet.sock": "http://kubelet/pods",
		"http://127.0.0.1:10255":   "http://127.0.0.1:10255/pods",
		"http://127.0.0.1:10255/":  "http://127.0.0.1:10255/pods",
		"unix://run/kubelet.sock":  "",
		"/run/kubelet.sock":        "",
		"https://127.0.0.1:10250":  "",
		"%":                        "",
	} {
		k, err := newKubelet(at)
		if want == "" {
			if err == nil {
				t.Errorf("newKubelet(%q): want an error", at)
			}
			continue
		}
		if err != nil || k.url != want {
			t.Errorf("newKubelet(%q) asks %v, %v, want %s", at, k, err, want)
		}
	}
}
