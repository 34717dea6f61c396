package probes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

// short is a deadline for what is expected to run into it, long one for what is
// not.
const (
	short = 200 * time.Millisecond
	long  = 20 * time.Second
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// redirect is a Reply that leads elsewhere.
func redirect(status int, to string) probestest.Reply {
	return probestest.Reply{Status: status, Header: http.Header{"Location": {to}}}
}

func TestHTTPJudgesResponses(t *testing.T) {
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere = true }))
	defer other.Close()
	_, otherPort := probestest.HostPort(t, other.URL)
	server := httptest.NewServer(probestest.Replies{
		"/ok":               {Body: "ok"},
		"/empty":            {},
		"/created":          {Status: 201, Body: "made"},
		"/nothing-new":      {Status: 304},
		"/odd-but-fine":     {Status: 399},
		"/wrong":            {Status: 400, Body: "secret"},
		"/broken":           {Status: 503, Body: "secret"},
		"/moved":            redirect(302, "/ok"),
		"/moved-to-missing": redirect(301, "/missing"),
		"/loop":             redirect(302, "/loop"),
		"/away":             {Status: 302, Header: http.Header{"Location": {"http://localhost:" + otherPort + "/"}}, Body: "go there"},
		"/no-location":      {Status: 302},
		"/other-port":       redirect(307, other.URL),
	})
	defer server.Close()
	tests := []struct {
		path string
		want probes.Result
	}{
		{"/ok", probes.Result{Outcome: probes.Success, Message: "ok"}},
		{"/empty", probes.Result{Outcome: probes.Success}},
		{"/created", probes.Result{Outcome: probes.Success, Message: "made"}},
		{"/nothing-new", probes.Result{Outcome: probes.Success}},
		{"/odd-but-fine", probes.Result{Outcome: probes.Success}},
		{"/wrong", probes.Result{Outcome: probes.Failure, Message: "HTTP probe failed with statuscode: 400"}},
		{"/broken", probes.Result{Outcome: probes.Failure, Message: "HTTP probe failed with statuscode: 503"}},
		{"/missing", probes.Result{Outcome: probes.Failure, Message: "HTTP probe failed with statuscode: 404"}},
		{"/moved", probes.Result{Outcome: probes.Success, Message: "ok"}},
		{"/moved-to-missing", probes.Result{Outcome: probes.Failure, Message: "HTTP probe failed with statuscode: 404"}},
		{"/loop", probes.Result{Outcome: probes.Failure, Message: `Get "/loop": stopped after 10 redirects`}},
		{"/away", probes.Result{Outcome: probes.Warning, Message: "Probe terminated redirects, Response body: go there"}},
		{"/no-location", probes.Result{Outcome: probes.Success}},
		{"/other-port", probes.Result{Outcome: probes.Success}},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			elsewhere = false
			got, err := probes.HTTP{URL: server.URL + tt.path}.Probe(within(t, long))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if want := tt.path == "/other-port"; elsewhere != want {
				t.Errorf("the other server was asked: %t, want %t", elsewhere, want)
			}
		})
	}
}

func TestHTTPRequest(t *testing.T) {
	type request struct {
		Line, Host string
		Header     http.Header
	}
	var got request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = request{Line: r.Method + " " + r.RequestURI + " " + r.Proto, Host: r.Host, Header: r.Header}
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	tests := []struct {
		name   string
		path   string
		header http.Header
		want   request
	}{
		{
			name: "defaults", path: "/healthz?full=1",
			want: request{"GET /healthz?full=1 HTTP/1.1", addr, http.Header{
				"Accept": {"*/*"}, "User-Agent": {"kube-probe/1.37"}, "Connection": {"close"},
			}},
		},
		{
			name: "own headers replace", path: "",
			header: http.Header{"user-agent": {"me"}, "accept": {"text/plain"}, "X-Twice": {"a", "b"}},
			want: request{"GET / HTTP/1.1", addr, http.Header{
				"Accept": {"text/plain"}, "User-Agent": {"me"}, "X-Twice": {"a", "b"}, "Connection": {"close"},
			}},
		},
		{
			name: "empty headers remove", path: "/",
			header: http.Header{"User-Agent": {""}, "Accept": {""}},
			want:   request{"GET / HTTP/1.1", addr, http.Header{"Connection": {"close"}}},
		},
		{
			name: "host", path: "/",
			header: http.Header{"Host": {"app.example"}},
			want: request{"GET / HTTP/1.1", "app.example", http.Header{
				"Accept": {"*/*"}, "User-Agent": {"kube-probe/1.37"}, "Connection": {"close"},
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := probes.HTTP{URL: server.URL + tt.path, Header: tt.header}.Probe(within(t, long))
			if err != nil || res.Outcome != probes.Success {
				t.Fatalf("%v, %v", res, err)
			}
			// The server takes the header that closes the connection out of the request.
			want := tt.want
			want.Header.Del("Connection")
			got.Header.Del("Connection")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPProtocols(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s tls=%t", r.Proto, r.TLS != nil)
	})
	start := func(set func(*httptest.Server)) string {
		server := httptest.NewUnstartedServer(handler)
		server.Config.Protocols = new(http.Protocols)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		set(server)
		t.Cleanup(server.Close)
		return server.URL
	}
	plain := start(func(s *httptest.Server) { s.Config.Protocols.SetHTTP1(true); s.Start() })
	h2c := start(func(s *httptest.Server) { s.Config.Protocols.SetUnencryptedHTTP2(true); s.Start() })
	tls1 := start(func(s *httptest.Server) { s.Config.Protocols.SetHTTP1(true); s.StartTLS() })
	tls2 := start(func(s *httptest.Server) {
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetHTTP2(true)
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	tests := []struct {
		name  string
		probe probes.HTTP
		want  string // the message of a success; empty for a failure
	}{
		{"plain", probes.HTTP{URL: plain}, "HTTP/1.1 tls=false"},
		{"https without HTTP/2", probes.HTTP{URL: tls1}, "HTTP/1.1 tls=true"},
		{"https with HTTP/2", probes.HTTP{URL: tls2}, "HTTP/2.0 tls=true"},
		{"HTTP/2 in clear text", probes.HTTP{URL: h2c, HTTP2: true}, "HTTP/2.0 tls=false"},
		{"HTTP/2 only, with TLS", probes.HTTP{URL: tls2, HTTP2: true}, "HTTP/2.0 tls=true"},
		{"HTTP/2 only, with a server that has none", probes.HTTP{URL: plain, HTTP2: true}, ""},
		{"https to a plain server", probes.HTTP{URL: strings.Replace(plain, "http:", "https:", 1)}, ""},
		{"plain to an https server", probes.HTTP{URL: strings.Replace(tls1, "https:", "http:", 1)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := tt.probe.Probe(within(t, long))
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if res.Outcome != probes.Failure || res.Message == "" {
					t.Errorf("got %+v, want a failure that says why", res)
				}
				return
			}
			if diff := cmp.Diff(probes.Result{Outcome: probes.Success, Message: tt.want}, res); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPRedirectToHTTPS(t *testing.T) {
	secure := httptest.NewTLSServer(probestest.Replies{"/": {Body: "secure"}})
	defer secure.Close()
	plain := httptest.NewServer(probestest.Replies{"/": redirect(302, secure.URL)})
	defer plain.Close()
	res, err := probes.HTTP{URL: plain.URL + "/"}.Probe(within(t, long))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(probes.Result{Outcome: probes.Success, Message: "secure"}, res); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestHTTPBodyIsBounded(t *testing.T) {
	server := httptest.NewServer(probestest.Replies{
		"/huge":    {Body: strings.Repeat("x", 1<<16), Repeat: 512},
		"/accents": {Body: "a" + strings.Repeat("\u00e9", 1<<14)},
		"/binary":  {Body: strings.Repeat("\xff\x00", 1<<12)},
	})
	defer server.Close()
	for _, path := range []string{"/huge", "/accents", "/binary"} {
		t.Run(path, func(t *testing.T) {
			res, err := probes.HTTP{URL: server.URL + path}.Probe(within(t, long))
			if err != nil || res.Outcome != probes.Success {
				t.Fatalf("%v, %v", res.Outcome, err)
			}
			if n := len(res.Message); n > probes.MaxOutput || n < probes.MaxOutput-4 {
				t.Errorf("message has %d bytes, want at most %d and not many less", n, probes.MaxOutput)
			}
			if !utf8.ValidString(res.Message) {
				t.Error("message is not valid UTF-8")
			}
		})
	}
}

func TestHTTPStalls(t *testing.T) {
	server := httptest.NewServer(probestest.Replies{
		"/silent":    {Delay: long},
		"/half-sent": {Body: "late", Stall: long},
	})
	defer server.Close()
	tests := []struct{ path, want string }{
		{"/silent", "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"},
		{"/half-sent", "context deadline exceeded (Client.Timeout or context cancellation while reading body)"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			began := time.Now()
			res, err := probes.HTTP{URL: server.URL + tt.path}.Probe(within(t, short))
			if err != nil {
				t.Fatal(err)
			}
			if res.Outcome != probes.Failure || !strings.HasSuffix(res.Message, tt.want) {
				t.Errorf("got %+v, want a failure ending in %q", res, tt.want)
			}
			if took := time.Since(began); took > long/2 {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestHTTPOddServers(t *testing.T) {
	reply := func(text string) string {
		return probestest.Raw(t, func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = conn.Write([]byte(text))
			}
		})
	}
	tests := []struct {
		name string
		addr string
		want probes.Outcome
		text string // in the message
	}{
		{"not HTTP", reply("SSH-2.0-x\r\n\r\n"), probes.Failure, "malformed HTTP"},
		{"nothing", reply(""), probes.Failure, "EOF"},
		{"half a header", reply("HTTP/1.1 200 OK\r\nA: b\r\n"), probes.Failure, "EOF"},
		{"half a body", reply("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), probes.Failure, "read the body"},
		{"HTTP/1.0 without a length", reply("HTTP/1.0 200 OK\r\n\r\nold"), probes.Success, "old"},
		{"chunks", reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), probes.Success, "hi"},
		{"hints first", reply("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), probes.Success, "ok"},
		{"endless header", reply("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 2000)), probes.Failure, "larger than"},
		{"nobody there", probestest.Unused(t), probes.Failure, "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := probes.HTTP{URL: "http://" + tt.addr + "/"}.Probe(within(t, long))
			if err != nil {
				t.Fatal(err)
			}
			if res.Outcome != tt.want || !strings.Contains(res.Message, tt.text) {
				t.Errorf("got %v %q, want %v with %q", res.Outcome, res.Message, tt.want, tt.text)
			}
		})
	}
}

func TestHTTPCannotAsk(t *testing.T) {
	tests := []struct {
		name  string
		probe probes.HTTP
		want  string
	}{
		{"no URL", probes.HTTP{}, "must be http"},
		{"other scheme", probes.HTTP{URL: "ftp://127.0.0.1/"}, "must be http"},
		{"no host", probes.HTTP{URL: "http:///x"}, "must be http"},
		{"broken URL", probes.HTTP{URL: "http://127.0.0.1:x/"}, "invalid port"},
		{"header name", probes.HTTP{URL: "http://127.0.0.1/", Header: http.Header{"a b": {"c"}}}, "no name for a header"},
		{"header value", probes.HTTP{URL: "http://127.0.0.1/", Header: http.Header{"A": {"b\r\nC: d"}}}, "cannot be sent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := tt.probe.Probe(within(t, long))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", res, err, tt.want)
			}
		})
	}
}

func TestCancelledAttemptsHaveNoAnswer(t *testing.T) {
	server := httptest.NewServer(probestest.Replies{"/": {Delay: long}})
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	tests := []struct {
		name   string
		prober probes.Prober
		asked  bool // the attempt reaches the server before it is cancelled
	}{
		{"http", probes.HTTP{URL: server.URL + "/"}, true},
		{"http, before it began", probes.HTTP{URL: server.URL + "/"}, false},
		{"tcp", probes.TCP{Addr: addr}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if tt.asked {
				time.AfterFunc(50*time.Millisecond, cancel)
			} else {
				cancel()
			}
			res, err := tt.prober.Probe(ctx)
			if err == nil {
				t.Errorf("got %+v, want an error", res)
			}
		})
	}
}

func TestHTTPOneConnectionEach(t *testing.T) {
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(probestest.Replies{"/": {Body: "ok"}})
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for range 5 {
		if res, err := (probes.HTTP{URL: server.URL + "/"}).Probe(within(t, long)); err != nil || res.Outcome != probes.Success {
			t.Fatalf("%v, %v", res, err)
		}
	}
	if got := conns.Load(); got != 5 {
		t.Errorf("5 attempts made %d connections", got)
	}
}
