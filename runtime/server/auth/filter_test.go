package auth_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/nodekit-go/nodekit/runtime/server/auth"
)

// What is asked of the authorizer for each path, and the answer to who may not.
func TestSubresources(t *testing.T) {
	tests := []struct {
		path string
		want []string
	}{
		{"/pods", []string{"pods", "proxy"}},
		{"/pods/", []string{"pods", "proxy"}},
		{"/podsx", []string{"proxy"}},
		{"/runningpods/", []string{"pods", "proxy"}},
		{"/runningpods", []string{"pods", "proxy"}},
		{"/allocatedPods/a/b", []string{"pods", "proxy"}},
		{"/healthz", []string{"healthz", "proxy"}},
		{"/healthz/ping", []string{"healthz", "proxy"}},
		{"/configz", []string{"configz", "proxy"}},
		{"/stats/summary", []string{"stats"}},
		{"/stats", []string{"stats"}},
		{"/statsx", []string{"proxy"}},
		{"/metrics", []string{"metrics"}},
		{"/metrics/cadvisor", []string{"metrics"}},
		{"/logs/", []string{"log"}},
		{"/logs/syslog", []string{"log"}},
		{"/checkpoint/a/b/c", []string{"checkpoint"}},
		{"/statusz", []string{"statusz"}},
		{"/flagz", []string{"configz"}},
		{"/containerLogs/a/b/c", []string{"proxy"}},
		{"/exec/a/b/c", []string{"proxy"}},
		{"/run/a/b/c", []string{"proxy"}},
		{"/debug/pprof/heap", []string{"proxy"}},
		{"/", []string{"proxy"}},
		{"", []string{"proxy"}},
		{"/nothing", []string{"proxy"}},
		// No right to a harmless path is one to another that it may lead to.
		{"/metrics/../exec/a/b/c", []string{"proxy"}},
		{"/metrics//cadvisor", []string{"proxy"}},
		{"//metrics", []string{"proxy"}},
		{"/metrics/.", []string{"proxy"}},
		{"metrics", []string{"proxy"}},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, auth.Subresources(tt.path)); diff != "" {
				t.Errorf("subresources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name                string
		method, path, token string
		rights              []string
		want                string
	}{
		{"without credentials", "GET", "/pods", "", nil, "401 Unauthorized"},
		{"with a token of nobody", "GET", "/pods", "bad", nil, "401 Unauthorized"},
		{"without rights", "GET", "/pods", "good", nil, "403 Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"},
		{"with the fine right", "GET", "/pods", "good", []string{"alice get pods"}, "200 alice"},
		{"with the coarse right", "GET", "/pods", "good", []string{"alice get proxy"}, "200 alice"},
		{"with the right of another", "GET", "/pods", "good", []string{"bob get pods"}, "403 Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"},
		{"with another right", "GET", "/metrics", "good", []string{"alice get proxy"}, "403 Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[metrics])\n"},
		{"reading what one may make", "GET", "/exec/a/b/c", "good", []string{"alice create proxy"}, "403 Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[proxy])\n"},
		{"making", "POST", "/exec/a/b/c", "good", []string{"alice create proxy"}, "200 alice"},
		{"replacing", "PUT", "/debug/flags/v", "good", []string{"alice update proxy"}, "200 alice"},
		{"changing", "PATCH", "/pods", "good", []string{"alice patch pods"}, "200 alice"},
		{"deleting", "DELETE", "/pods", "good", []string{"alice delete pods"}, "200 alice"},
		{"a method without a verb", "HEAD", "/metrics", "good", []string{"alice get metrics"}, "403 Forbidden (user=alice, verb=, resource=nodes, subresource(s)=[metrics])\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := protect(t, nil)
			f.access.allow(tt.rights...)
			for range 2 { // the second answer is remembered
				if got := f.ask(tt.method, tt.path, tt.token); got != tt.want {
					t.Errorf("the answer is %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// The authorizer is asked about the user as the token says, and about the node.
func TestQuestion(t *testing.T) {
	f := protect(t, nil)
	f.ask("GET", "/healthz/ping", "good")
	spec := func(sub string) authorizationv1.SubjectAccessReviewSpec {
		return authorizationv1.SubjectAccessReviewSpec{
			User: "alice", UID: "uid-alice", Groups: []string{"people", "system:authenticated"},
			Extra:              map[string]authorizationv1.ExtraValue{"where": {"here"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "nodes", Subresource: sub, Name: "node-a"},
		}
	}
	if diff := cmp.Diff([]authorizationv1.SubjectAccessReviewSpec{spec("healthz"), spec("proxy")}, f.access.asked); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

func TestAnonymous(t *testing.T) {
	f := protect(t, func(c *auth.Config) { c.Anonymous = true })
	f.access.allow("system:anonymous get healthz")
	tests := []struct{ path, token, want string }{
		{"/healthz", "", "200 system:anonymous"},
		{"/pods", "", "403 Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"},
		{"/healthz", "bad", "401 Unauthorized"}, // who comes with a token is not nobody
		{"/healthz", "good", "403 Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n"},
	}
	for _, tt := range tests {
		if got := f.ask("GET", tt.path, tt.token); got != tt.want {
			t.Errorf("%s with token %q: the answer is %q, want %q", tt.path, tt.token, got, tt.want)
		}
	}
	if diff := cmp.Diff([]string{"system:unauthenticated"}, f.access.asked[0].Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestAlwaysAllow(t *testing.T) {
	f := protect(t, func(c *auth.Config) { c.Mode, c.Access = auth.AlwaysAllow, nil })
	for token, want := range map[string]string{"": "401 Unauthorized", "bad": "401 Unauthorized", "good": "200 alice"} {
		if got := f.ask("POST", "/exec/a/b/c", token); got != want {
			t.Errorf("with token %q the answer is %q, want %q", token, got, want)
		}
	}
}

// Without anything to know people by, nobody is let in.
func TestNobodyIsKnown(t *testing.T) {
	f := protect(t, func(c *auth.Config) { c.Tokens, c.Mode, c.Access = nil, auth.AlwaysAllow, nil })
	for _, token := range []string{"", "good"} {
		if got := f.ask("GET", "/healthz", token); got != "401 Unauthorized" {
			t.Errorf("with token %q the answer is %q", token, got)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	tests := []struct {
		name string
		cfg  auth.Config
		want string
	}{
		{"no node", auth.Config{Mode: auth.AlwaysAllow}, "Config.Node is empty"},
		{"nobody to ask", auth.Config{Node: "a"}, "Config.Access is nil"},
		{"another mode", auth.Config{Node: "a", Mode: 7}, "Config.Mode is Mode(7)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := auth.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
		})
	}
}

// What the handler behind the filter gets has no token in it, and the request of the
// server is left as it was.
func TestHandlerSeesNoCredentials(t *testing.T) {
	f := protect(t, nil)
	f.access.allow("alice get proxy")
	filter, err := auth.New(auth.Config{Node: "node-a", Tokens: f.tokens, Access: f.access})
	if err != nil {
		t.Fatal(err)
	}
	var seen http.Header
	h := filter.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	const token = "base64url.bearer.authorization.k8s.io.Z29vZA" // good
	tests := []struct {
		name       string
		sent, want http.Header
	}{
		{"in a header", http.Header{"Authorization": {"Bearer good"}, "Accept": {"*/*"}}, http.Header{"Accept": {"*/*"}}},
		{
			"in a subprotocol",
			http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"}, "Sec-Websocket-Protocol": {"v5.channel.k8s.io, " + token, "v4.channel.k8s.io"}},
			http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"}, "Sec-Websocket-Protocol": {"v5.channel.k8s.io,v4.channel.k8s.io"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/exec/a/b/c", http.NoBody)
			r.Header = tt.sent.Clone()
			seen = nil
			h.ServeHTTP(httptest.NewRecorder(), r)
			if diff := cmp.Diff(tt.want, seen); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.sent, r.Header); diff != "" {
				t.Errorf("headers of the request changed (-want +got):\n%s", diff)
			}
		})
	}
}

// Forms of tokens that clients send, and some that they do not.
func TestForms(t *testing.T) {
	socket := func(protocols ...string) http.Header {
		return http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": protocols}
	}
	const prefix = "base64url.bearer.authorization.k8s.io."
	tests := []struct {
		name   string
		header http.Header
		known  bool
	}{
		{"bearer", http.Header{"Authorization": {"Bearer good"}}, true},
		{"in small letters", http.Header{"Authorization": {"bearer good"}}, true},
		{"with blanks around", http.Header{"Authorization": {"  Bearer good  "}}, true},
		{"with something behind", http.Header{"Authorization": {"Bearer good more"}}, true},
		{"with two blanks", http.Header{"Authorization": {"Bearer  good"}}, false},
		{"without a token", http.Header{"Authorization": {"Bearer"}}, false},
		{"another scheme", http.Header{"Authorization": {"Basic good"}}, false},
		{"a WebSocket", socket("v5.channel.k8s.io", prefix+"Z29vZA"), true},
		{"a WebSocket without another subprotocol", socket(prefix + "Z29vZA"), false},
		{"a WebSocket with two tokens", socket("v5.channel.k8s.io", prefix+"Z29vZA", prefix+"b3RoZXI"), false},
		{"a WebSocket with no base64", socket("v5.channel.k8s.io", prefix+"%%"), false},
		{"a WebSocket with an empty token", socket("v5.channel.k8s.io", prefix), false},
		{"no WebSocket", http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io", prefix + "Z29vZA"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := protect(t, func(c *auth.Config) { c.Mode, c.Access = auth.AlwaysAllow, nil })
			r := httptest.NewRequest("GET", "/pods", http.NoBody)
			r.Header = tt.header
			if got := f.send(r) == "200 alice"; got != tt.known {
				t.Errorf("who asks is known: %t, want %t", got, tt.known)
			}
		})
	}
}

// Nothing that is logged has a token in it.
func TestLogHasNoTokens(t *testing.T) {
	var log strings.Builder
	f := protect(t, func(c *auth.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const secret = "topsecret"
	f.tokens.set(func(context.Context) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{Error: "token is out of date"}, nil
	})
	f.ask("GET", "/pods?token="+secret, secret)
	r := httptest.NewRequest("GET", "/exec/a/b/c", http.NoBody)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"x,base64url.bearer.authorization.k8s.io." + secret + "%"}}
	f.send(r)
	f.tokens.set(nil)
	f.ask("GET", "/pods?token="+secret, "good")
	if !strings.Contains(log.String(), "token is out of date") || !strings.Contains(log.String(), "user=alice") {
		t.Errorf("the log does not tell what happened:\n%s", log.String())
	}
	if strings.Contains(log.String(), secret) || strings.Contains(log.String(), "good") {
		t.Errorf("the log has a token:\n%s", log.String())
	}
}

var errDown = errors.New("connection refused")

// Nobody is let in by mistake when the API server cannot be asked; those it has spoken
// about lately go on.
func TestAPIServerIsAway(t *testing.T) {
	synctest.Test(t, testAPIServerIsAway)
}

func testAPIServerIsAway(t *testing.T) {
	f := protect(t, nil)
	f.access.allow("alice get metrics")
	if got := f.ask("GET", "/metrics", "good"); got != "200 alice" {
		t.Fatalf("the answer is %q", got)
	}
	f.tokens.set(func(context.Context) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, errDown
	})
	f.access.set(func(context.Context) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{}, errDown
	})
	tests := []struct{ path, token, want string }{
		{"/metrics", "good", "200 alice"},
		{"/metrics", "other", "401 Unauthorized"},
		{"/pods", "good", "500 Authorization error (user=alice, verb=get, resource=nodes, subresource=pods)"},
	}
	for _, tt := range tests {
		began := time.Now()
		if got := f.ask("GET", tt.path, tt.token); got != tt.want {
			t.Errorf("%s with token %q: the answer is %q, want %q", tt.path, tt.token, got, tt.want)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("%s with token %q: it took %s to say so", tt.path, tt.token, took)
		}
	}
}
