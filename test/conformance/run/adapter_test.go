package run

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// The ports are the kubelet's; the test listens elsewhere and finds out where.
func TestSurfaceAnswersWhatTheSuiteAsks(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "pods at "+r.URL.Path)
	})}}
	kubelet.Start()
	defer kubelet.Close()
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte("staticPodPath: /pods\nreadOnlyPort: 10255\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	anywhere := func(ctx context.Context, network, _ string) (net.Listener, error) {
		return new(net.ListenConfig).Listen(ctx, network, "127.0.0.1:0")
	}
	s, err := serveSurface(t.Context(), anywhere, socket, func() string { return config })
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, test := range []struct {
		name   string
		server *httptest.Server
		path   string
		want   string
	}{
		{"pods", s.plain, "/pods", "pods at /pods"},
		{"configuration", s.secure, "/configz", `{"kubeletconfig":{"readOnlyPort":10255,"staticPodPath":"/pods"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, err := test.server.Client().Get(test.server.URL + test.path)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if string(body) != test.want {
				t.Errorf("got %s, want %s", body, test.want)
			}
		})
	}
}
