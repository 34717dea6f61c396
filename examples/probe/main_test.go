package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestRun(t *testing.T) {
	server := httptest.NewServer(probestest.Replies{
		"/ok":     {Body: "fine"},
		"/broken": {Status: 503},
		"/away":   probestest.Reply{Status: 302, Header: map[string][]string{"Location": {"http://192.0.2.1/"}}, Body: "go\naway"},
	})
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	_, port := probestest.HostPort(t, server.URL)
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	err := os.WriteFile(pod, []byte(`
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  containers:
  - name: app
    ports: [{name: web, containerPort: `+port+`}]
    env: [{name: CODE, value: "3"}]
    readinessProbe: {httpGet: {path: /ok, port: web}}
    livenessProbe: {exec: {command: [sh, -c, "exit $(CODE)"]}, failureThreshold: 1}
    startupProbe: {tcpSocket: {port: nope}}
  - name: other
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		want []string // each found in what is printed
	}{
		{"http", []string{"--http", server.URL + "/ok", "--count", "1"}, healthy, []string{"TIME", "success   success   fine"}},
		{"http with a warning", []string{"--http", server.URL + "/away", "--count", "1"}, healthy, []string{"warning   success   Probe terminated redirects, Response body: go away"}},
		{
			"liveness until it fails",
			[]string{"--http", server.URL + "/broken", "--kind", "liveness", "--period", "10ms", "--failure-threshold", "2"},
			unhealthy,
			[]string{"failure   success   HTTP probe failed with statuscode: 503", "failure   failure   HTTP"},
		},
		{"startup until it succeeds", []string{"--tcp", addr, "--kind", "Startup"}, healthy, []string{"success   success"}},
		{"tcp", []string{"--tcp", probestest.Unused(t), "--count", "1"}, unhealthy, []string{"connection refused"}},
		{"grpc", []string{"--grpc", probestest.Unused(t), "--count", "1", "--timeout", "100ms"}, unhealthy, []string{"timeout: failed to connect service"}},
		{"command", []string{"--count", "1", "--", "echo", "hello"}, healthy, []string{"success   success   hello"}},
		{"failing command", []string{"--count", "1", "--", "sh", "-c", "echo oh; exit 1"}, unhealthy, []string{"failure   failure   oh"}},
		{"hung command", []string{"--count", "1", "--timeout", "100ms", "--", "sh", "-c", "sleep 60 & sleep 60"}, unhealthy, []string{"command timed out"}},
		{"no such command", []string{"--count", "1", "--", "no-such-command"}, unhealthy, []string{"unknown   failure", "executable file not found"}},
		{"pod", []string{"--pod", pod, "--container", "app", "--count", "1"}, healthy, []string{"fine"}},
		{"command of a pod", []string{"--pod", pod, "--container", "app", "--kind", "liveness"}, unhealthy, []string{`exited with code 3`}},
		{"bad probe of a pod", []string{"--pod", pod, "--container", "app", "--kind", "startup"}, unusable, []string{`startupProbe: tcpSocket.port: the container has no port named "nope"`}},
		{"no probe in a pod", []string{"--pod", pod, "--container", "other"}, unusable, []string{"readinessProbe: there is no probe"}},
		{"no such container", []string{"--pod", pod, "--container", "x"}, unusable, []string{"it has app, other"}},
		{"which container", []string{"--pod", pod}, unusable, []string{"choose one of app, other"}},
		{"no such file", []string{"--pod", pod + "x"}, unusable, []string{"no such file"}},
		{"nothing to probe", nil, unusable, []string{"0 things to probe"}},
		{"too much to probe", []string{"--tcp", addr, "--http", server.URL}, unusable, []string{"2 things to probe"}},
		{"bad kind", []string{"--tcp", addr, "--kind", "x"}, unusable, []string{`--kind is "x"`}},
		{"bad format", []string{"--tcp", addr, "-o", "x"}, unusable, []string{`--output is "x"`}},
		{"bad count", []string{"--tcp", addr, "--count", "-1"}, unusable, []string{"--count is -1"}},
		{"bad header", []string{"--http", server.URL, "--header", "x"}, unusable, []string{`--header is "x"`}},
		{"bad schedule", []string{"--tcp", addr, "--kind", "liveness", "--success-threshold", "2"}, unusable, []string{"allows only 1"}},
		{"schedule with a pod", []string{"--pod", pod, "--period", "1s"}, unusable, []string{"--period goes with a probe described by flags"}},
		{"half a runtime", []string{"--runtime", "unix:///x", "--", "x"}, unusable, []string{"go together"}},
		{"help", []string{"--help"}, healthy, []string{"probe --http URL"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out strings.Builder
			if code := run(ctx, tt.args, &out, &out); code != tt.code {
				t.Errorf("exit code is %d, want %d", code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("printed:\n%s\nwant it to contain %q", out.String(), want)
				}
			}
		})
	}
}

func TestJSON(t *testing.T) {
	server := httptest.NewServer(probestest.Replies{"/": {Body: "ok"}})
	defer server.Close()
	var out strings.Builder
	code := run(t.Context(), []string{"--http", server.URL + "/", "--count", "2", "--period", "5ms", "-o", "json"}, &out, &out)
	if code != healthy {
		t.Errorf("exit code is %d", code)
	}
	dec := json.NewDecoder(strings.NewReader(out.String()))
	for range 2 {
		var got map[string]any
		if err := dec.Decode(&got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"kind": "readiness", "outcome": "success", "value": "success", "tries": 1.0, "message": "ok"}
		ignore := cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "time" || k == "seconds" })
		if diff := cmp.Diff(want, got, ignore); diff != "" {
			t.Errorf("line (-want +got):\n%s", diff)
		}
		if text, _ := got["time"].(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT.*Z$`).MatchString(text) {
			t.Errorf("time is %v", got["time"])
		}
	}
	if dec.More() {
		t.Errorf("more than two lines:\n%s", out.String())
	}
}

func TestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	var out strings.Builder
	if code := run(ctx, []string{"--", "sleep", "60"}, &out, &out); code != unhealthy {
		t.Errorf("exit code is %d; printed:\n%s", code, out.String())
	}
}
