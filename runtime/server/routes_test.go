package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// said answers with a text and the path.
func said(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text, " ", r.URL.Path) })
}

// full switches everything on.
func full(tb testing.TB) func(*server.Config) {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "syslog"), []byte("hello"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return func(c *server.Config) {
		c.Pages = server.Pages{Stats: said("stats"), Metrics: said("metrics"), Configuration: func() any {
			return map[string]any{"kind": "KubeletConfiguration", "maxPods": 110}
		}}
		c.Debug = server.Debug{HostLogs: dir, Profiling: said("profiles"), SetVerbosity: func(level string) error {
			if level != "4" {
				return errors.New("want 4")
			}
			return nil
		}}
		c.Health = []server.Check{{Name: "syncloop", Fault: func() error { return nil }}}
	}
}

func TestPaths(t *testing.T) {
	n := newNode(t, runtimetest.Config{Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
		return runtimetest.ExecResult{Stdout: fmt.Sprint(e.Cmd)}
	}})
	a := n.serve(t, full(t))
	for _, tt := range []struct {
		name, method, path string
		code               int
		// want is in the body, allow is the header of this name.
		want, allow string
	}{
		{name: "health", path: "/healthz", code: 200, want: "ok"},
		{name: "health in words", path: "/healthz?verbose", code: 200, want: "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed"},
		{name: "ping", path: "/healthz/ping", code: 200, want: "ok"},
		{name: "loop", path: "/healthz/syncloop", code: 200, want: "ok"},
		{name: "no check", path: "/healthz/nothing", code: 404},
		{name: "pods", path: "/pods", code: 200, want: `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web"`},
		{name: "pods with a slash", path: "/pods/", code: 200, want: `"name":"web"`},
		{name: "pods of a kind", path: "/pods/x", code: 404},
		{name: "pods changed", method: "POST", path: "/pods", code: 405, want: "Method Not Allowed", allow: "GET, HEAD"},
		{name: "running", path: "/runningpods/", code: 200, want: `"containers":[{"name":"app"`},
		{name: "running changed", method: "DELETE", path: "/runningpods", code: 405},
		{name: "allocated", path: "/allocatedPods", code: 200, want: `"kind":"PodList"`},
		{name: "one allocated", path: "/allocatedPods/default/web", code: 200, want: `"kind":"Pod"`},
		{name: "one of a UID", path: "/allocatedPods/default/web/" + uid, code: 200, want: `"status":{}`},
		{name: "one of another UID", path: "/allocatedPods/default/web/1", code: 404, want: "pod not found"},
		{name: "stats", path: "/stats/summary", code: 200, want: "stats /stats/summary"},
		{name: "stats asked for", method: "POST", path: "/stats/summary", code: 200, want: "stats /stats/summary"},
		{name: "metrics", path: "/metrics", code: 200, want: "metrics /metrics"},
		{name: "metrics of resources", path: "/metrics/resource", code: 200, want: "metrics /metrics/resource"},
		{name: "metrics changed", method: "PUT", path: "/metrics/resource", code: 405},
		{name: "configuration", path: "/configz", code: 200, want: `{"kubeletconfig":{"kind":"KubeletConfiguration","maxPods":110}}`},
		{name: "run", method: "POST", path: "/run/default/web/app?cmd=echo%20hello", code: 200, want: "[echo hello]"},
		{name: "run in an instance", method: "POST", path: "/run/default/web/" + uid + "/app?cmd=id", code: 200, want: "[id]"},
		{name: "run in another instance", method: "POST", path: "/run/default/web/1/app?cmd=id", code: 404, want: "pod not found"},
		{name: "run in no container", method: "POST", path: "/run/default/web/db?cmd=id", code: 404, want: `container "db" not found in pod "web"`},
		{name: "run in no pod", method: "POST", path: "/run/default/none/app?cmd=id", code: 404, want: "pod does not exist"},
		{name: "run by GET", path: "/run/default/web/app?cmd=id", code: 405, allow: "POST"},
		{name: "log of no pod", path: "/containerLogs/default/none/app", code: 404, want: `pod "none" does not exist`},
		{name: "log of no container", path: "/containerLogs/default/web/db", code: 404, want: `container "db" not found in pod "web"`},
		{name: "log of nothing", path: "/containerLogs/default/web", code: 404},
		{name: "log with bad options", path: "/containerLogs/default/web/app?tailLines=x", code: 400, want: `{"message":"Unable to decode query: tailLines is not understood: want a number"}`},
		{name: "log with impossible options", path: "/containerLogs/default/web/app?tailLines=-1", code: 422, want: `{"message":"Invalid request: tailLines is -1`},
		{name: "log changed", method: "POST", path: "/containerLogs/default/web/app", code: 405},
		{name: "exec of no streams", method: "POST", path: "/exec/default/web/app?command=id", code: 400, want: "you must specify at least 1 of stdin, stdout, stderr"},
		{name: "exec without upgrade", method: "POST", path: "/exec/default/web/app?command=id&output=1", code: 400, want: "Upgrade request required"},
		{name: "exec in no pod", method: "POST", path: "/exec/default/none/app?output=1", code: 404, want: "pod does not exist"},
		{name: "exec in another instance", path: "/exec/default/web/1/app?output=1", code: 404, want: "pod not found"},
		{name: "attach without upgrade", path: "/attach/default/web/app?output=1", code: 400, want: "Upgrade request required"},
		{name: "forward without upgrade", path: "/portForward/default/web", code: 400, want: "Upgrade request required"},
		{name: "forward of no pod", method: "POST", path: "/portForward/default/none/1", code: 404, want: "pod does not exist"},
		{name: "checkpoint of no container", method: "POST", path: "/checkpoint/default/web/db", code: 404, want: "container db does not exist"},
		{name: "checkpoint in bad time", method: "POST", path: "/checkpoint/default/web/app?timeout=soon", code: 400, want: "cannot parse value"},
		{name: "checkpoint by GET", path: "/checkpoint/default/web/app", code: 405},
		{name: "folder of logs", path: "/logs/", code: 200, want: `<a href="./syslog">syslog</a>`},
		{name: "file of logs", path: "/logs/syslog", code: 200, want: "hello"},
		{name: "query of logs", path: "/logs/?query=kubelet", code: 501, want: "queries of logs are switched off"},
		{name: "profile", path: "/debug/pprof/heap", code: 200, want: "profiles /debug/pprof/heap"},
		{name: "verbosity", method: "PUT", path: "/debug/flags/v", code: 400, want: "want 4"},
		{name: "nothing", path: "/", code: 404},
		{name: "nothing here", path: "/api/v1/pods", code: 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := a.with(t)
			method := tt.method
			if method == "" {
				method = http.MethodGet
			}
			resp, body := a.do(method, tt.path, nil)
			if resp.StatusCode != tt.code || !strings.Contains(body, tt.want) {
				t.Errorf("%s %s is %s:\n%s\nwant %d and %s", method, tt.path, resp.Status, body, tt.code, tt.want)
			}
			if tt.allow != "" && resp.Header.Get("Allow") != tt.allow {
				t.Errorf("Allow is %q, want %q", resp.Header.Get("Allow"), tt.allow)
			}
		})
	}
}

// everything is one request for each path.
func everything() []string {
	return []string{
		"GET /healthz", "GET /healthz/ping", "GET /pods", "GET /runningpods/", "GET /allocatedPods", "GET /stats/summary",
		"GET /metrics", "GET /metrics/cadvisor", "GET /metrics/resource", "GET /metrics/probes", "GET /configz",
		"POST /run/default/web/app", "POST /exec/default/web/app", "GET /attach/default/web/app", "POST /portForward/default/web",
		"GET /containerLogs/default/web/app", "POST /checkpoint/default/web/app", "GET /logs/", "GET /logs/syslog",
		"GET /debug/pprof/", "PUT /debug/flags/v", "GET /", "GET /nothing", "OPTIONS /pods", "DELETE /exec/default/web/app",
	}
}

func TestNobodyIsLetInWhereNobodyProtects(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	n.rt.ForgetCalls()
	a := n.serve(t, full(t), func(c *server.Config) { c.Protect = nil })
	for _, request := range everything() {
		method, path, _ := strings.Cut(request, " ")
		if resp, body := a.do(method, path, nil); resp.StatusCode != http.StatusUnauthorized || body != "Unauthorized" {
			t.Errorf("%s is %s %q, want 401 Unauthorized", request, resp.Status, body)
		}
	}
	if calls := n.rt.Calls(); len(calls) > 0 {
		t.Errorf("the runtime was asked %v", calls)
	}
}

func TestProtectSeesEveryRequest(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	a := newNode(t, runtimetest.Config{}).serve(t, full(t), func(c *server.Config) {
		c.Protect = func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen = append(seen, r.Method+" "+r.URL.Path)
				mu.Unlock()
				http.Error(w, "no", http.StatusForbidden)
			})
		}
	})
	for _, request := range everything() {
		method, path, _ := strings.Cut(request, " ")
		if resp, body := a.do(method, path, nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s is %s %q, want 403", request, resp.Status, body)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(everything(), seen); diff != "" {
		t.Errorf("requests that were asked about (-want +got):\n%s", diff)
	}
}

// A path that is read in two ways could be authorized in one and served in the other.
func TestPathsThatCanBeReadInTwoWaysAreRefused(t *testing.T) {
	a := newNode(t, runtimetest.Config{}).serve(t, full(t))
	for _, path := range []string{
		"/stats/../exec/default/web/app?output=1", "/metrics//../exec/default/web/app", "//pods", "/logs/../pods", "/logs/..", "/./pods",
		"/logs/%2e%2e/pods", "/logs/%2e%2e%2fpods", "/stats%2f..%2fpods", "/logs/a%2fb", "/containerLogs/default//app",
	} {
		if body := a.get(path, http.StatusBadRequest); body != "the path is not a plain one" {
			t.Errorf("GET %s says %q", path, body)
		}
	}
}

func TestReadOnly(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	cfg := server.Config{Pods: pods{n.pod}}
	full(t)(&cfg)
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]int{
		"GET /healthz": 200, "GET /healthz/syncloop": 200, "GET /pods": 200, "POST /pods": 405, "GET /stats/summary": 200,
		"GET /metrics": 200, "GET /metrics/probes": 200, "GET /configz": 404, "GET /allocatedPods": 404, "GET /runningpods/": 405,
		"POST /run/default/web/app": 405, "POST /exec/default/web/app": 405, "POST /attach/default/web/app": 405,
		"POST /portForward/default/web": 405, "GET /containerLogs/default/web/app": 405, "POST /checkpoint/default/web/app": 404,
		"GET /logs/": 405, "GET /debug/pprof/": 405, "PUT /debug/flags/v": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		s.ReadOnly().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		if w.Code != want {
			t.Errorf("%s is %d %q, want %d", request, w.Code, w.Body, want)
		}
		if want == 405 && method+path != "POST/pods" && w.Body.String() != "Debug endpoints are disabled." {
			t.Errorf("%s says %q", request, w.Body)
		}
	}
}

func TestWhatIsSwitchedOff(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	for _, tt := range []struct {
		name string
		edit func(*server.Config)
		want map[string]string
	}{
		{
			name: "debugging",
			edit: func(c *server.Config) { c.Debug.Disabled = true },
			want: map[string]string{
				"POST /run/default/web/app": "Debug endpoints are disabled.", "GET /containerLogs/default/web/app": "Debug endpoints are disabled.",
				"POST /exec/default/web/app": "Debug endpoints are disabled.", "GET /runningpods/": "Debug endpoints are disabled.",
				"POST /attach/default/web/app": "Debug endpoints are disabled.", "POST /portForward/default/web": "Debug endpoints are disabled.",
				"GET /debug/pprof/heap": "Debug endpoints are disabled.", "GET /logs/": "Debug endpoints are disabled.",
			},
		},
		{
			name: "each of them",
			edit: func(c *server.Config) { c.Debug = server.Debug{} },
			want: map[string]string{
				"GET /debug/pprof/heap": "profiling endpoint is disabled.", "PUT /debug/flags/v": "flags endpoint is disabled.",
				"GET /logs/": "logs endpoint is disabled.",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := n.serve(t, full(t), tt.edit)
			for request, want := range tt.want {
				method, path, _ := strings.Cut(request, " ")
				if resp, body := a.do(method, path, nil); resp.StatusCode != http.StatusMethodNotAllowed || body != want {
					t.Errorf("%s is %s %q, want 405 %q", request, resp.Status, body, want)
				}
			}
			a.get("/healthz", http.StatusOK)
		})
	}
}

func TestAgentsThatCannotDoMuch(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	a := serve(t, server.Config{Protect: server.Open, Pods: pods{n.pod}})
	for request, want := range map[string]int{
		"GET /pods": 200, "GET /runningpods/": 501, "POST /run/default/web/app": 501, "POST /exec/default/web/app?output=1": 501,
		"POST /portForward/default/web": 501, "GET /containerLogs/default/web/app": 501, "POST /checkpoint/default/web/app": 501,
		"GET /stats/summary": 404, "GET /metrics": 404, "GET /configz": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		if resp, body := a.do(method, path, nil); resp.StatusCode != want {
			t.Errorf("%s is %s %q, want %d", request, resp.Status, body, want)
		}
	}
	empty := serve(t, server.Config{Protect: server.Open})
	if got := empty.get("/pods", http.StatusOK); got != `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}` {
		t.Errorf("pods of a node without pods are %s", got)
	}
	empty.get("/containerLogs/default/web/app", http.StatusNotFound)
}

func TestPodsThatAreNotKnownYet(t *testing.T) {
	a := serve(t, server.Config{Protect: server.Open, Pods: unknown{}})
	if got := a.get("/pods", http.StatusServiceUnavailable); got != errNotYet.Error() {
		t.Errorf("answer is %q", got)
	}
}

func TestHealthTellsWhatIsWrong(t *testing.T) {
	a := serve(t, server.Config{Protect: server.Open, Health: []server.Check{
		{Name: "syncloop", Fault: func() error { return errors.New("the pod workers are 1m0s behind") }},
	}})
	if got := a.get("/healthz", http.StatusInternalServerError); got != "[-]syncloop failed: the pod workers are 1m0s behind\nhealthz check failed\n" {
		t.Errorf("answer is %q", got)
	}
	a.get("/healthz/syncloop", http.StatusInternalServerError)
	a.get("/healthz/ping", http.StatusOK)
	a.get("/healthz/none", http.StatusNotFound)
}

// Healthz has no error to return: of checks that share a name the first one answers for it.
func TestHealthzOfAnyNames(t *testing.T) {
	h := server.Healthz([]server.Check{
		{Name: "loop", Fault: func() error { return nil }},
		{Name: "loop", Fault: func() error { return errors.New("behind") }},
		{Name: "{", Fault: func() error { return nil }},
	})
	for path, want := range map[string]int{"/healthz/loop": 200, "/healthz": 500, "/healthz/%7B": 200, "/healthz/x": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s is answered with %d, want %d", path, w.Code, want)
		}
	}
}

func TestVerbosityIsSet(t *testing.T) {
	var got string
	a := serve(t, server.Config{Protect: server.Open, Debug: server.Debug{SetVerbosity: func(level string) error { got = level; return nil }}})
	resp, body := a.do(http.MethodPut, "/debug/flags/v", strings.NewReader("6\n"))
	if resp.StatusCode != http.StatusOK || body != "successfully set verbosity to 6" || got != "6" {
		t.Errorf("answer is %s %q, level %q", resp.Status, body, got)
	}
}

func TestRequestsAreTold(t *testing.T) {
	var mu sync.Mutex
	var began, ended []server.Request
	a := newNode(t, runtimetest.Config{}).serve(t, full(t), func(c *server.Config) {
		c.Requests = func(r server.Request) func() {
			mu.Lock()
			defer mu.Unlock()
			began = append(began, r)
			return func() {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, r)
			}
		}
	})
	a.get("/pods", 200)
	a.get("/metrics/resource", 200)
	a.get("/containerLogs/default/web/none", 404)
	a.get("/exec/default/web/app", 400)
	a.get("/favicon.ico", 404)
	a.do("BREW", "/pods", nil)
	want := []server.Request{
		{Server: "readwrite", Method: "GET", Path: "pods"},
		{Server: "readwrite", Method: "GET", Path: "metrics/resource"},
		{Server: "readwrite", Method: "GET", Path: "containerLogs"},
		{Server: "readwrite", Method: "GET", Path: "exec", LongRunning: true},
		{Server: "readwrite", Method: "GET", Path: "other"},
		{Server: "readwrite", Method: "other", Path: "pods"},
	}
	until(t, "the end of the last request", func() bool { mu.Lock(); defer mu.Unlock(); return len(ended) == len(want) })
	if diff := cmp.Diff(want, began); diff != "" {
		t.Errorf("requests that began (-want +got):\n%s", diff)
	}
	if !slices.Equal(began, ended) {
		t.Errorf("requests that ended are %v, began have %v", ended, began)
	}
}

// saver is a runtime that can save the state of containers, or fails to.
type saver struct {
	*runtime.Client
	err  error
	seen []*runtimeapi.CheckpointContainerRequest
}

func (s *saver) CheckpointContainer(_ context.Context, req *runtimeapi.CheckpointContainerRequest) error {
	s.seen = append(s.seen, req)
	return s.err
}

func TestCheckpoint(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	rt := &saver{Client: n.client}
	dir := filepath.Join(t.TempDir(), "checkpoints")
	cri, err := server.NewCRI(rt, server.CRIConfig{CheckpointDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	a := serve(t, server.Config{Protect: server.Open, Pods: pods{n.pod}, Containers: cri.Containers()})
	resp, body := a.do(http.MethodPost, "/checkpoint/default/web/app?timeout=1&timeout=20", nil)
	var answer struct{ Items []string }
	if err := json.Unmarshal([]byte(body), &answer); resp.StatusCode != http.StatusOK || err != nil || len(answer.Items) != 1 {
		t.Fatalf("answer is %s %s (%v)", resp.Status, body, err)
	}
	if got := answer.Items[0]; filepath.Dir(got) != dir || !strings.HasPrefix(filepath.Base(got), "checkpoint-web_default-app-") || filepath.Ext(got) != ".tar" {
		t.Errorf("checkpoint is %s", got)
	}
	if len(rt.seen) != 1 || rt.seen[0].GetTimeout() != 20 || rt.seen[0].GetLocation() != answer.Items[0] {
		t.Errorf("the runtime was asked for %v", rt.seen)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of checkpoints: %v %v, want mode 0700", info, err)
	}
	rt.err = errors.New("CRIU is missing")
	resp, body = a.do(http.MethodPost, "/checkpoint/default/web/app", nil)
	if resp.StatusCode != http.StatusInternalServerError || body != "checkpointing of default/web/app failed (CRIU is missing)" {
		t.Errorf("answer is %s %q", resp.Status, body)
	}
}

func TestContainersOfAllKindsAreFound(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	n.pod.Spec.InitContainers = []corev1.Container{{Name: "first"}}
	n.pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "look"}}}
	a := n.serve(t)
	for _, name := range []string{"first", "look"} {
		if got := a.get("/containerLogs/default/web/"+name, http.StatusBadRequest); got != fmt.Sprintf("container %q in pod %q is not available", name, "web") {
			t.Errorf("log of %s: %q", name, got)
		}
	}
}
