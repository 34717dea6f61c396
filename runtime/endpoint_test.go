package runtime

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketPath(t *testing.T) {
	for _, c := range []struct {
		name, endpoint, want string
		// wantErr is a part of the error.
		wantErr string
	}{
		{name: "scheme", endpoint: "unix:///run/containerd/containerd.sock", want: "/run/containerd/containerd.sock"},
		{name: "scheme without slashes", endpoint: "unix:/run/cri.sock", want: "/run/cri.sock"},
		{name: "plain path", endpoint: "/run/cri.sock", want: "/run/cri.sock"},
		{name: "path is cleaned", endpoint: "unix:////run/../run//cri.sock", want: "/run/cri.sock"},
		{name: "longest path", endpoint: "/" + strings.Repeat("x", 106), want: "/" + strings.Repeat("x", 106)},
		{name: "too long", endpoint: "/" + strings.Repeat("x", 107), wantErr: "has 108 bytes"},
		{name: "empty", endpoint: "", wantErr: "names no socket"},
		{name: "scheme only", endpoint: "unix://", wantErr: "names no socket"},
		{name: "relative", endpoint: "run/cri.sock", wantErr: "not an absolute path"},
		{name: "host instead of a path", endpoint: "unix://run/cri.sock", wantErr: "not an absolute path"},
		{name: "tcp", endpoint: "tcp://127.0.0.1:1234", wantErr: `scheme "tcp" is not supported`},
		{name: "named pipe", endpoint: "npipe:////./pipe/containerd", wantErr: `scheme "npipe" is not supported`},
		{name: "NUL", endpoint: "/run/\x00cri", wantErr: "NUL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := socketPath(c.endpoint)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("error is %v, want one about %q", err, c.wantErr)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("path is %q, error %v, want %q", got, err, c.want)
			}
		})
	}
}

func FuzzSocketPath(f *testing.F) {
	for _, seed := range []string{"unix:///run/cri.sock", "/run/cri.sock", "unix:", "unix://x", "tcp://h:1", "\x00", "unix:////../..", "npipe:////./pipe/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		path, err := socketPath(endpoint)
		if err != nil {
			if path != "" {
				t.Errorf("%q has the path %q beside the error %v", endpoint, path, err)
			}
			return
		}
		if !filepath.IsAbs(path) || len(path) > maxSocketPath || strings.ContainsRune(path, 0) {
			t.Errorf("%q has the unusable path %q", endpoint, path)
		}
		again, err := socketPath("unix://" + path)
		if err != nil || again != path {
			t.Errorf("%q gives %q, which gives %q, %v", endpoint, path, again, err)
		}
	})
}
