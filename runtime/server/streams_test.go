package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// bound is how long a server may take for a step of a test.
const bound = time.Minute

// dialSPDY opens a connection for streams.
func (a *api) dialSPDY(path, protocol string) (httpstream.Connection, error) {
	a.tb.Helper()
	rt, err := spdy.NewRoundTripper(insecure())
	if err != nil {
		a.tb.Fatal(err)
	}
	req, err := http.NewRequestWithContext(a.tb.Context(), http.MethodPost, "https://"+a.host+path, http.NoBody)
	if err != nil {
		a.tb.Fatal(err)
	}
	req.Header.Set("X-Stream-Protocol-Version", protocol)
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		a.tb.Fatal(err)
	}
	conn, err := rt.NewConnection(resp)
	if err == nil {
		a.tb.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// stream opens one of a connection's streams.
func (a *api) stream(c httpstream.Connection, kind string, headers ...string) httpstream.Stream {
	a.tb.Helper()
	h := http.Header{"Streamtype": {kind}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	s, err := c.CreateStream(h)
	if err != nil {
		a.tb.Fatal(err)
	}
	return s
}

// all reads a stream to its end.
func (a *api) all(r io.Reader) string {
	a.tb.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		a.tb.Errorf("read stream: %v", err)
	}
	return string(text)
}

// dialWebSocket opens a WebSocket.
func (a *api) dialWebSocket(path string, protocols ...string) (*websocket.Conn, *http.Response, error) {
	a.tb.Helper()
	d := websocket.Dialer{TLSClientConfig: insecure(), Subprotocols: protocols, HandshakeTimeout: bound}
	c, resp, err := d.DialContext(a.tb.Context(), "wss://"+a.host+path, http.Header{"Authorization": {"Bearer secret"}, "Origin": {"https://dashboard.example"}})
	if err == nil {
		a.tb.Cleanup(func() { c.Close() })
	}
	return c, resp, err
}

// next reads a message, for which the server has its time from now on.
func next(tb testing.TB, c *websocket.Conn) ([]byte, error) {
	tb.Helper()
	if err := c.SetReadDeadline(time.Now().Add(bound)); err != nil {
		tb.Fatal(err)
	}
	_, m, err := c.ReadMessage()
	return m, err
}

// tell sends a message to a channel.
func tell(tb testing.TB, c *websocket.Conn, channel byte, text string) {
	tb.Helper()
	if err := c.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)); err != nil {
		tb.Fatal(err)
	}
}

// hear collects what channels say until the connection ends.
func hear(tb testing.TB, c *websocket.Conn) map[byte]string {
	tb.Helper()
	got := map[byte]string{}
	for {
		m, err := next(tb, c)
		if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseAbnormalClosure) || errors.Is(err, io.ErrUnexpectedEOF) {
			return got
		}
		if err != nil {
			tb.Fatalf("after %q: %v", got, err)
		}
		if len(m) > 1 {
			got[m[0]] += string(m[1:])
		}
	}
}

// exitCode reads the last word of a command.
func exitCode(tb testing.TB, text string) string {
	tb.Helper()
	var st metav1.Status
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		tb.Fatalf("last word %q: %v", text, err)
	}
	if st.Status == metav1.StatusSuccess {
		return "0"
	}
	if st.Reason != "NonZeroExitCode" || st.Details == nil || len(st.Details.Causes) != 1 {
		return string(st.Reason) + " " + st.Message
	}
	return st.Details.Causes[0].Message
}

// echo is a command that reads all of its input and tells what it was.
func echo(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
	in, err := io.ReadAll(e.Stdin)
	fmt.Fprintf(e.Stdout, "%q got %d bytes", e.Cmd, len(in))
	if err != nil || e.TTY {
		fmt.Fprintf(e.Stdout, " %v %v", err, e.TTY)
	}
	return runtimetest.ExecResult{Code: 3, Stderr: "oh"}
}

const execPath = "/exec/default/web/app?command=sh&command=-c&input=1&output=1&error=1"

func TestExecOverSPDY(t *testing.T) {
	n := newNode(t, runtimetest.Config{Exec: echo})
	a := n.serve(t)
	conn, err := a.dialSPDY(execPath, "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	final, in, out, errOut := a.stream(conn, "error"), a.stream(conn, "stdin"), a.stream(conn, "stdout"), a.stream(conn, "stderr")
	if _, err := io.WriteString(in, strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if got := a.all(out); got != `["sh" "-c"] got 1048576 bytes` {
		t.Errorf("stdout is %q", got)
	}
	if got := a.all(errOut); got != "oh" {
		t.Errorf("stderr is %q", got)
	}
	if got := exitCode(t, a.all(final)); got != "3" {
		t.Errorf("exit code is %s, want 3", got)
	}
}

func TestExecOverWebSocket(t *testing.T) {
	for _, protocol := range []string{"v5.channel.k8s.io", "v4.channel.k8s.io"} {
		t.Run(protocol, func(t *testing.T) {
			n := newNode(t, runtimetest.Config{Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
				line, err := bufio.NewReader(e.Stdin).ReadString('\n')
				fmt.Fprintf(e.Stdout, "%q got %q %v", e.Cmd, line, err)
				return runtimetest.ExecResult{Code: 3, Stderr: "oh"}
			}})
			a := n.serve(t)
			c, _, err := a.dialWebSocket(execPath, protocol)
			if err != nil {
				t.Fatal(err)
			}
			if c.Subprotocol() != protocol {
				t.Errorf("protocol is %s", c.Subprotocol())
			}
			tell(t, c, 0, "hello\n")
			got := hear(t, c)
			if diff := cmp.Diff(map[byte]string{1: `["sh" "-c"] got "hello\n" <nil>`, 2: "oh"}, map[byte]string{1: got[1], 2: got[2]}); diff != "" {
				t.Errorf("channels (-want +got):\n%s", diff)
			}
			if code := exitCode(t, got[3]); code != "3" {
				t.Errorf("exit code is %s, want 3", code)
			}
		})
	}
}

// Only the protocol v5 can tell a command that its input has ended.
func TestInputCanEnd(t *testing.T) {
	a := newNode(t, runtimetest.Config{Exec: echo}).serve(t)
	c, _, err := a.dialWebSocket(execPath, "v5.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	// A message that goes over several frames is one message.
	w, err := c.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "\x00"+strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tell(t, c, 255, "\x00")
	got := hear(t, c)
	if got[1] != `["sh" "-c"] got 1048576 bytes` || exitCode(t, got[3]) != "3" {
		t.Errorf("channels said %q", got)
	}
}

func TestMuchOutput(t *testing.T) {
	const size = 8 << 20
	n := newNode(t, runtimetest.Config{Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
		block := []byte(strings.Repeat("0123456789abcdef", 4096))
		for range size / len(block) {
			if _, err := e.Stdout.Write(block); err != nil {
				return runtimetest.ExecResult{Code: 1}
			}
		}
		return runtimetest.ExecResult{}
	}})
	a := n.serve(t)
	c, _, err := a.dialWebSocket("/exec/default/web/app?command=cat&output=1", "v5.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	got := hear(t, c)
	if len(got[1]) != size || got[1] != strings.Repeat("0123456789abcdef", size/16) || exitCode(t, got[3]) != "0" {
		t.Errorf("got %d bytes and %q, want %d", len(got[1]), got[3], size)
	}
}

func TestTerminalsHaveNoErrors(t *testing.T) {
	n := newNode(t, runtimetest.Config{Exec: echo})
	a := n.serve(t)
	c, _, err := a.dialWebSocket(execPath+"&tty=1", "v5.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	tell(t, c, 4, `{"Width":80,"Height":24}`)
	tell(t, c, 255, "\x00")
	if got := hear(t, c); got[1] != `["sh" "-c"] got 0 bytes <nil> true` {
		t.Errorf("channels said %q", got)
	}
	calls := n.rt.Calls("Exec")
	if req, ok := calls[0].Request.(*runtimeapi.ExecRequest); !ok || !req.GetTty() || req.GetStderr() {
		t.Errorf("the runtime was asked %v, want a terminal without stderr", calls[0].Request)
	}
}

func TestAttach(t *testing.T) {
	for _, tt := range []struct {
		name, protocol, query string
		// tty says that the container has a terminal.
		tty bool
	}{
		{"v5", "v5.channel.k8s.io", "", false},
		{"v4", "v4.channel.k8s.io", "", false},
		{"a terminal that the client knows", "v5.channel.k8s.io", "&tty=1", true},
		{"a terminal that it does not know", "v5.channel.k8s.io", "", true},
		{"a terminal, and it wants errors", "v5.channel.k8s.io", "&error=1", true},
		{"no terminal, and it wants one", "v5.channel.k8s.io", "&tty=1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, runtimetest.Config{}, runtimetest.Life{Echo: true})
			n.pod.Spec.Containers[0].TTY = tt.tty
			a := n.serve(t)
			c, _, err := a.dialWebSocket("/attach/default/web/"+uid+"/app?input=1&output=1"+tt.query, tt.protocol)
			if err != nil {
				t.Fatal(err)
			}
			tell(t, c, 0, "hello\n")
			for got := ""; got != "hello\n"; {
				m, err := next(t, c)
				if err != nil || m[0] != 1 {
					t.Fatalf("got %q, %v", m, err)
				}
				got += string(m[1:])
			}
			if err := n.client.StopContainer(t.Context(), bare(n.pod), 0); err != nil {
				t.Fatal(err)
			}
			hear(t, c)
			calls := n.rt.Calls("Attach")
			if req, ok := calls[0].Request.(*runtimeapi.AttachRequest); !ok || req.GetTty() != tt.tty || req.GetStderr() {
				t.Errorf("the runtime was asked %v, want tty %t and no stderr", calls[0].Request, tt.tty)
			}
		})
	}
}

// forward answers a line on any port but 81.
func forward(_ context.Context, pod *runtimeapi.PodSandboxConfig, port int32, conn io.ReadWriteCloser) error {
	if port == 81 {
		return errors.New("connection refused")
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Fprintf(conn, "%s:%d got %q", pod.GetMetadata().GetName(), port, line)
	return err
}

// useForward speaks with two ports over a connection of SPDY.
func useForward(a *api, conn httpstream.Connection) {
	a.tb.Helper()
	for i, want := range []struct{ port, data, err string }{{"80", `web:80 got "hello\n"`, ""}, {"81", "", "connection refused"}} {
		id := fmt.Sprint(i)
		errs := a.stream(conn, "error", "port", want.port, "requestID", id)
		if err := errs.Close(); err != nil {
			a.tb.Fatal(err)
		}
		data := a.stream(conn, "data", "port", want.port, "requestID", id)
		// A port that refuses may have done so by now.
		if _, err := io.WriteString(data, "hello\n"); err != nil && want.err == "" {
			a.tb.Fatal(err)
		}
		if err := data.Close(); err != nil && want.err == "" {
			a.tb.Fatal(err)
		}
		if got := a.all(errs); !strings.Contains(got, want.err) || want.err == "" && got != "" {
			a.tb.Errorf("port %s: error is %q, want %q", want.port, got, want.err)
		}
		got, err := io.ReadAll(data)
		if string(got) != want.data || err != nil && want.err == "" {
			a.tb.Errorf("port %s said %q (%v), want %q", want.port, got, err, want.data)
		}
		conn.RemoveStreams(errs, data)
	}
}

func TestPortForwardOverSPDY(t *testing.T) {
	n := newNode(t, runtimetest.Config{Forward: forward})
	a := n.serve(t)
	conn, err := a.dialSPDY("/portForward/default/web", "portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	useForward(a, conn)
}

func TestPortForwardInsideAWebSocket(t *testing.T) {
	n := newNode(t, runtimetest.Config{Forward: forward})
	a := n.serve(t)
	c, _, err := a.dialWebSocket("/portForward/default/web", "SPDY/3.1+portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	if c.Subprotocol() != "SPDY/3.1+portforward.k8s.io" {
		t.Errorf("protocol is %q", c.Subprotocol())
	}
	conn, err := spdy.NewClientConnection(&socketConn{netConn: c.NetConn(), ws: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	useForward(a, conn)
}

// socketConn is a WebSocket as one stream of bytes.
type socketConn struct {
	netConn
	ws *websocket.Conn
	r  io.Reader
}

func (s *socketConn) Read(b []byte) (int, error) {
	for {
		if s.r == nil {
			_, r, err := s.ws.NextReader()
			if err != nil {
				return 0, err
			}
			s.r = r
		}
		n, err := s.r.Read(b)
		if errors.Is(err, io.EOF) {
			s.r, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (s *socketConn) Write(b []byte) (int, error) {
	return len(b), s.ws.WriteMessage(websocket.BinaryMessage, b)
}

func TestPortForwardOverTheOldWebSocket(t *testing.T) {
	n := newNode(t, runtimetest.Config{Forward: forward})
	a := n.serve(t)
	c, _, err := a.dialWebSocket("/portForward/default/web?port=80", "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	tell(t, c, 0, "hello\n")
	for got := ""; !strings.Contains(got, `web:80 got "hello\n"`); {
		m, err := next(t, c)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got += string(m[1:])
	}
	for path, want := range map[string]string{
		"/portForward/default/web":             `query parameter "port" is required`,
		"/portForward/default/web?port=":       `query parameter "port" cannot be empty`,
		"/portForward/default/web?port=80,x":   `unable to parse "80,x" as a port`,
		"/portForward/default/web?port=0":      `port "0" must be > 0`,
		"/portForward/default/web?port=999999": `unable to parse "999999" as a port`,
	} {
		_, resp, err := a.dialWebSocket(path, "v4.channel.k8s.io")
		if err == nil || resp == nil {
			t.Errorf("%s: %v, want a refusal", path, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusBadRequest || !has(string(body), want) {
			t.Errorf("%s is %s %q, want 400 %q", path, resp.Status, body, want)
		}
	}
}

func TestWhatCannotBeExecuted(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	if err := n.client.StopContainer(t.Context(), bare(n.pod), 0); err != nil {
		t.Fatal(err)
	}
	n.pod.Spec.Containers = append(n.pod.Spec.Containers, corev1.Container{Name: "db"})
	a := n.serve(t)
	for path, want := range map[string]string{
		"/exec/default/web/app?output=1":    `container not found ("app")`,
		"/attach/default/web/app?output=1":  `container not found ("app")`,
		"/exec/default/web/db?output=1":     `container not found ("db")`,
		"/portForward/default/web/nobodys":  "pod not found",
		"/exec/default/web/none?output=1":   `container "none" not found in pod "web"`,
		"/attach/default/nobody/x?output=1": "pod does not exist",
	} {
		if _, err := a.dialSPDY(path, "v4.channel.k8s.io"); err == nil || !has(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if _, resp, err := a.dialWebSocket(path, "v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"); err == nil || resp == nil || resp.StatusCode < 400 {
			t.Errorf("%s over WebSocket: %v, want a refusal in HTTP", path, err)
		}
	}
	if err := n.client.StopPodSandbox(t.Context(), n.sandbox); err != nil {
		t.Fatal(err)
	}
	if _, err := a.dialSPDY("/portForward/default/web", "portforward.k8s.io"); err == nil || !has(err.Error(), `pod not found ("web_default")`) {
		t.Errorf("port of a pod that has stopped: %v", err)
	}
}

// elsewhere is a runtime whose streams are at one URL.
type elsewhere struct {
	server.Streams
	at *url.URL
}

func (e elsewhere) Exec(context.Context, server.Container, []string, server.StreamOptions) (*url.URL, error) {
	return e.at, nil
}

func (e elsewhere) PortForward(context.Context, *corev1.Pod, []int32) (*url.URL, error) {
	return e.at, nil
}

func TestRuntimesThatAnswerNonsense(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		code         int
		want         string
	}{
		{"refuses", "HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nno token", 404, "no token"},
		{"speaks another protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v1\r\n\r\n", 500, "speaks"},
		{"speaks no HTTP", "SSH-2.0-OpenSSH\r\n", 500, "ask the runtime's streaming server"},
		{"hangs up", "", 500, "ask the runtime's streaming server"},
		{"speaks without end", "HTTP/1.1 500 Oh\r\n\r\n" + strings.Repeat("no ", 100_000), 500, "no no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, runtimetest.Config{})
			at := answers(t, tt.answer)
			a := n.serve(t, func(c *server.Config) { c.Containers.Streams = elsewhere{at: at} })
			_, resp, err := a.dialWebSocket("/exec/default/web/app?output=1", "v5.channel.k8s.io")
			if err == nil || resp == nil {
				t.Fatalf("error is %v, want an answer in HTTP", err)
			}
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.code || !has(string(body), tt.want) {
				t.Errorf("answer is %s %.80q, want %d %q", resp.Status, body, tt.code, tt.want)
			}
		})
	}
	n := newNode(t, runtimetest.Config{})
	a := n.serve(t, func(c *server.Config) {
		c.Containers.Streams = elsewhere{at: &url.URL{Scheme: "ftp", Host: "127.0.0.1"}}
	})
	if _, err := a.dialSPDY("/exec/default/web/app?output=1", "v4.channel.k8s.io"); err == nil || !has(err.Error(), `scheme "ftp", want http or https`) {
		t.Errorf("error is %v", err)
	}
}

// What proves who a client is concerns the node only.
func TestCredentialsStayHere(t *testing.T) {
	var mu sync.Mutex
	var seen []http.Header
	at := records(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header)
	})
	n := newNode(t, runtimetest.Config{})
	a := n.serve(t, func(c *server.Config) { c.Containers.Streams = elsewhere{at: at} })
	if _, err := a.dialSPDY("/exec/default/web/app?output=1", "v4.channel.k8s.io"); err == nil {
		t.Error("a server that upgrades nothing was believed")
	}
	for _, p := range []string{"v5.channel.k8s.io", "v4.channel.k8s.io"} {
		if _, _, err := a.dialWebSocket("/exec/default/web/app?output=1", p); err == nil {
			t.Error("a server that upgrades nothing was believed")
		}
	}
	if _, _, err := a.dialWebSocket("/portForward/default/web", "SPDY/3.1+portforward.k8s.io"); err == nil {
		t.Error("a server that upgrades nothing was believed")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 4 {
		t.Errorf("the runtime was asked %d times, want 4", len(seen))
	}
	for _, h := range seen {
		if h.Get("Authorization") != "" || h.Get("Origin") != "" || h.Get("Upgrade") == "" {
			t.Errorf("the runtime got %v", h)
		}
	}
}
