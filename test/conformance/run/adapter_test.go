package run

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// The ports are the kubelet's; the test listens elsewhere and finds out where.
func TestSurfaceAnswersWhatTheSuiteAsks(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte("staticPodPath: /pods\nreadOnlyPort: 10255\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "default_web_1", "app")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "0.log"), []byte("2026-01-02T03:04:05Z stdout F hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	anywhere := func(ctx context.Context, network, _ string) (net.Listener, error) {
		return new(net.ListenConfig).Listen(ctx, network, "127.0.0.1:0")
	}
	s, err := serveSurface(t.Context(), anywhere, podLogs(dir), func() string { return config })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct {
		name string
		path string
		want string
	}{
		{"configuration", "/configz", `{"kubeletconfig":{"readOnlyPort":10255,"staticPodPath":"/pods"}}`},
		{"logs", "/containerLogs/default/web/app", "hello\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, err := s.Client().Get(s.URL + test.path)
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
