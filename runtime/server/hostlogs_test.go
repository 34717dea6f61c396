package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/runtime/server"
)

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

func TestHostLogs(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(dir, "syslog"):         "hello",
		filepath.Join(dir, "pods", "<b>:x"):  "<script>",
		filepath.Join(outside, "shadow.log"): "secret",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"file": filepath.Join(outside, "shadow.log"), "folder": outside, "inside": "syslog", "self": "/proc/self/root"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mkfifo(filepath.Join(dir, "pipe")); err != nil {
		t.Fatal(err)
	}
	a := serve(t, server.Config{Protect: server.Open, Debug: server.Debug{HostLogs: dir}})
	for _, tt := range []struct {
		name, path string
		code       int
		want       string
	}{
		{"folder", "/logs/", 200, "<a href=\"./pods/\">pods/</a>\n<a href=\"./self\">self</a>\n<a href=\"./syslog\">syslog</a>"},
		{"folder below", "/logs/pods/", 200, `<a href="./%3Cb%3E:x">&lt;b&gt;:x</a>`},
		{"folder without its slash", "/logs/pods", 301, ""},
		{"file", "/logs/syslog", 200, "hello"},
		{"file with an odd name", "/logs/pods/%3Cb%3E:x", 200, "<script>"},
		{"none", "/logs/none", 404, "there is no file none"},
		{"link to a file", "/logs/file", 403, "a link is in the way, it is not followed"},
		{"link to a folder", "/logs/folder/", 403, "a link is in the way, it is not followed"},
		{"file behind a link", "/logs/folder/shadow.log", 403, "a link is in the way, it is not followed"},
		{"link within", "/logs/inside", 403, "a link is in the way, it is not followed"},
		{"link of the kernel", "/logs/self/etc/passwd", 403, "a link is in the way, it is not followed"},
		{"pipe", "/logs/pipe", 403, "neither a file nor a folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := a.with(t)
			resp, body := a.do(http.MethodGet, tt.path, nil)
			if resp.StatusCode != tt.code || !has(body, tt.want) {
				t.Errorf("GET %s is %s %q, want %d %q", tt.path, resp.Status, body, tt.code, tt.want)
			}
			if tt.code == 200 && resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("a browser may make of it what it likes")
			}
			if tt.code == 301 && resp.Header.Get("Location") != "./pods/" {
				t.Errorf("Location is %s", resp.Header.Get("Location"))
			}
		})
	}
}

func FuzzHostLogPaths(f *testing.F) {
	root := f.TempDir()
	dir := filepath.Join(root, "log")
	for _, d := range []string{dir, filepath.Join(dir, "a")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			f.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(root, "secret"): "secret", filepath.Join(dir, "a", "b"): "fine"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{"a/b", "../secret", "a/../../secret", "link", "%2e%2e/secret", "..%2fsecret", "//", "a//b", "\x00", "?query=x"} {
		f.Add(path)
	}
	s, err := server.New(server.Config{Protect: server.Open, Debug: server.Debug{HostLogs: dir}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if code, body := ask(s.Handler(), "/logs/"+path); has(body, "secret") && code == http.StatusOK {
			t.Errorf("/logs/%q shows what is outside: %q", path, body)
		}
	})
}
