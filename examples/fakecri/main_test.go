package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestParseLife(t *testing.T) {
	for _, c := range []struct {
		text, name string
		want       runtimetest.Life
		wantErr    string
	}{
		{"app=run", "app", runtimetest.Life{}, ""},
		{"app=exit:3@10s", "app", runtimetest.Exits(10*time.Second, 3), ""},
		{"app=exit:0", "app", runtimetest.Exits(0, 0), ""},
		{"app=oom@1m", "app", runtimetest.OOMs(time.Minute), ""},
		{"app=fail:no such file", "app", runtimetest.Life{StartError: "no such file"}, ""},
		{"app=stubborn", "app", runtimetest.Life{IgnoreTerm: true}, ""},
		{"app", "", runtimetest.Life{}, "want NAME=KIND"},
		{"=run", "", runtimetest.Life{}, "want NAME=KIND"},
		{"app=dance", "", runtimetest.Life{}, "unknown kind"},
		{"app=exit:x", "", runtimetest.Life{}, "exit code"},
		{"app=exit:1@soon", "", runtimetest.Life{}, "invalid duration"},
	} {
		t.Run(c.text, func(t *testing.T) {
			name, life, err := parseLife(c.text)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("error is %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if err != nil || name != c.name {
				t.Errorf("name is %q, error %v", name, err)
			}
			if d := cmp.Diff(c.want, life); d != "" {
				t.Errorf("life (-want +got):\n%s", d)
			}
		})
	}
}

func TestServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cri.sock")
	o, err := parse([]string{"--socket", socket, "--image", "web:1", "--life", "app=exit:3"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		// The second run finds the socket of the first.
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		out := &lineWriter{said: make(chan string, 1)}
		go func() { done <- serve(ctx, o, out) }()
		select {
		case <-out.said:
		case err := <-done:
			t.Fatal(err)
		}
		c, err := runtime.Dial(ctx, "unix://"+socket, runtime.Config{})
		if err != nil {
			t.Fatal(err)
		}
		images, err := c.ListImages(ctx, nil)
		if err != nil || len(images) != 1 {
			t.Errorf("images are %v, error %v, want web:1", images, err)
		}
		c.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		leave(t, socket)
	}
}

// leave puts a socket where a killed program would have left one.
func leave(t *testing.T, path string) {
	t.Helper()
	s, err := runtimetest.New(runtimetest.Config{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".left"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := os.Rename(path+".left", path); err != nil {
		t.Fatal(err)
	}
}

// lineWriter says what it was given.
type lineWriter struct{ said chan string }

func (w *lineWriter) Write(b []byte) (int, error) {
	select {
	case w.said <- string(b):
	default:
	}
	return len(b), nil
}

func TestRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"extra"}, {"--chatter", "-1s"}, {"--life", "x"}, {"--no-such-flag"}, {"--socket", file},
	} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file is %q now, error %v", data, err)
	}
	if err := run([]string{"--help"}, &bytes.Buffer{}); err != nil {
		t.Errorf("--help is %v", err)
	}
}

func TestCommands(t *testing.T) {
	instance := runtimetest.Instance{
		Sandbox: &runtimeapi.PodSandboxConfig{Hostname: "web-0"},
		Config:  &runtimeapi.ContainerConfig{Envs: []*runtimeapi.KeyValue{{Key: "A", Value: []byte("1")}}},
	}
	for _, c := range []struct {
		cmd  string
		want runtimetest.ExecResult
	}{
		{"true", runtimetest.ExecResult{}},
		{"false", runtimetest.ExecResult{Code: 1}},
		{"echo a b", runtimetest.ExecResult{Stdout: "a b\n"}},
		{"hostname", runtimetest.ExecResult{Stdout: "web-0\n"}},
		{"env", runtimetest.ExecResult{Stdout: "A=1\n"}},
		{"sleep 3", runtimetest.ExecResult{After: 3 * time.Second}},
		{"exit 3", runtimetest.ExecResult{Code: 3}},
		{"exit x", runtimetest.ExecResult{Code: 2, Stderr: "strconv.ParseInt: parsing \"x\": invalid syntax\n"}},
		{"ls", runtimetest.ExecResult{Code: 127, Stderr: "ls: not found\n"}},
	} {
		got := runCommand(t.Context(), runtimetest.Exec{Container: instance, Cmd: strings.Fields(c.cmd)})
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.cmd, d)
		}
	}
}
