package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	framing "github.com/moby/spdystream/spdy"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// dial opens a connection with TLS.
func (a *api) dial() net.Conn {
	a.tb.Helper()
	d := tls.Dialer{Config: insecure()}
	c, err := d.DialContext(a.tb.Context(), "tcp", a.host)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.tb.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
		a.tb.Fatal(err)
	}
	return c
}

// ends reads until the server closes the connection.
func ends(tb testing.TB, c net.Conn) string {
	tb.Helper()
	text, err := io.ReadAll(c)
	if err, ok := err.(net.Error); ok && err.Timeout() { //nolint:errorlint // it comes from the connection itself
		tb.Fatalf("the connection is still open after %s: %q", bound, text)
	}
	return string(text)
}

// A client that takes its time does not keep a connection for it.
func TestSlowClientsAreCutOff(t *testing.T) {
	short := func(c *server.Config) {
		c.Limits = server.Limits{Header: 5 * time.Second, Request: 6 * time.Second, KeepAlive: 2 * time.Second}
	}
	n := newNode(t, runtimetest.Config{})
	a := n.serve(t, full(t), short)
	for _, tt := range []struct {
		name string
		// first is what the client sends at once; drip goes on for as long as it can.
		first, drip string
	}{
		{name: "says nothing"},
		{name: "drips its header", first: "GET /pods HTTP/1.1\r\nHost: node\r\n", drip: "X-Header: 1\r\n"},
		{name: "drips its body", first: "PUT /debug/flags/v HTTP/1.1\r\nHost: node\r\nContent-Length: 60\r\n\r\n", drip: "4"},
		{name: "keeps the connection for nothing", first: "GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A machine that has too much to do may be the slow client itself.
			d := tls.Dialer{Config: insecure()}
			c, err := d.DialContext(t.Context(), "tcp", a.host)
			if err != nil {
				return
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, tt.first); err != nil {
				return
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				for tt.drip != "" {
					if _, err := io.WriteString(c, tt.drip); err != nil {
						return
					}
					<-time.After(100 * time.Millisecond)
				}
			})
			ends(t, c)
			c.Close()
			wg.Wait()
		})
	}
	t.Run("says nothing of TLS", func(t *testing.T) {
		t.Parallel()
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", a.host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
			t.Fatal(err)
		}
		ends(t, c)
	})
}

func TestOversizedRequests(t *testing.T) {
	a := newNode(t, runtimetest.Config{}).serve(t, full(t))
	for _, tt := range []struct{ name, request, want string }{
		{"header", "GET /pods HTTP/1.1\r\nHost: node\r\nX-Big: " + strings.Repeat("x", 1<<20+1<<14) + "\r\n\r\n", "431"},
		{"path", "GET /logs/" + strings.Repeat("x", 1<<20+1<<14) + " HTTP/1.1\r\nHost: node\r\n\r\n", "431"},
		{"announced body", "PUT /debug/flags/v HTTP/1.1\r\nHost: node\r\nContent-Length: 10000000\r\n\r\n", "413"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := a.with(t).dial()
			go io.WriteString(c, tt.request) // the server need not read all of it
			if answer, err := bufio.NewReader(c).ReadString('\n'); !has(answer, tt.want) {
				t.Errorf("answer is %q (%v), want %s", answer, err, tt.want)
			}
		})
	}
	t.Run("body without end", func(t *testing.T) {
		c := a.with(t).dial()
		if _, err := io.WriteString(c, "PUT /debug/flags/v HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		chunk := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"
		var wg sync.WaitGroup
		sent := 0
		wg.Go(func() {
			for range 1 << 12 {
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
				sent += len(chunk)
			}
		})
		ends(t, c)
		wg.Wait()
		if sent > 32<<20 {
			t.Errorf("the server took %d bytes", sent)
		}
	})
}

// sleeps is a command that waits for its client to go.
func sleeps(ctx context.Context, e runtimetest.Exec) runtimetest.ExecResult {
	fmt.Fprint(e.Stdout, "ready")
	_, _ = io.Copy(io.Discard, e.Stdin) // until the client has gone
	<-ctx.Done()
	return runtimetest.ExecResult{}
}

// files makes room for connections, as a service has it.
func files(tb testing.TB, want uint64) {
	tb.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		tb.Fatal(err)
	}
	if l.Cur >= want {
		return
	}
	if l.Max < want {
		tb.Skipf("this process may open %d files, the test needs %d", l.Max, want)
	}
	tb.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l) })
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: want, Max: l.Max}); err != nil {
		tb.Fatal(err)
	}
}

// A thousand shells that nobody types in leave room for everybody else.
func TestAThousandIdleStreams(t *testing.T) {
	const streams = 1000
	files(t, 4*streams+200)
	n := newNode(t, runtimetest.Config{})
	at := shells(t, httptest.NewServer)
	a := n.serve(t, full(t), func(c *server.Config) { c.Containers.Streams = elsewhere{at: at} })
	var conns []*websocket.Conn
	for i := range streams {
		c, _, err := a.dialWebSocket("/exec/default/web/app?output=1&input=1", "v4.channel.k8s.io")
		if err != nil {
			t.Fatalf("stream %d: %v", i+1, err)
		}
		conns = append(conns, c)
	}
	a.get("/healthz", http.StatusOK)
	a.get("/pods", http.StatusOK)
	for i, c := range conns {
		tell(t, c, 0, "still there?")
		if m, err := next(t, c); err != nil || string(m) != "\x00still there?" {
			t.Fatalf("stream %d says %q, %v", i+1, m, err)
		}
		c.Close()
	}
}

// shells is a runtime's streaming server that sends back what it gets.
func shells(tb testing.TB, start func(http.Handler) *httptest.Server) *url.URL {
	tb.Helper()
	up := websocket.Upgrader{Subprotocols: []string{"v4.channel.k8s.io"}, CheckOrigin: func(*http.Request) bool { return true }}
	return upgrades(tb, start, func(w http.ResponseWriter, r *http.Request) {
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, m, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, m) != nil {
				return
			}
		}
	})
}

func TestRuntimeThatServesStreamsWithTLS(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	at := shells(t, httptest.NewTLSServer)
	a := n.serve(t, func(c *server.Config) { c.Containers.Streams = elsewhere{at: at} })
	c, _, err := a.dialWebSocket("/exec/default/web/app?output=1&input=1", "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	tell(t, c, 0, "hello")
	if m, err := next(t, c); err != nil || string(m) != "\x00hello" {
		t.Errorf("the stream says %q, %v", m, err)
	}
}

// Who speaks HTTP/2 gets all but streams, for which clients ask for a connection of HTTP/1.1.
func TestHTTP2(t *testing.T) {
	n := newNode(t, runtimetest.Config{Exec: echo})
	cri, err := server.NewCRI(n.client, server.CRIConfig{LogRoot: n.root})
	if err != nil {
		t.Fatal(err)
	}
	n.write(t, 0, 2)
	cfg := server.Config{Protect: server.Open, Pods: pods{n.pod}, Containers: cri.Containers()}
	for _, tt := range []struct {
		protocols []string
		want      string
	}{{[]string{"h2", "http/1.1"}, "HTTP/2.0"}, {[]string{"http/1.1"}, "HTTP/1.1"}, {nil, "HTTP/1.1"}} {
		t.Run(tt.want, func(t *testing.T) {
			a := serve(t, cfg, tt.protocols...)
			a.client.Transport = &http.Transport{TLSClientConfig: insecure(), ForceAttemptHTTP2: true}
			resp, body := a.do(http.MethodGet, "/containerLogs/default/web/app", nil)
			if resp.Proto != tt.want || body != "line 1\nline 2\n" {
				t.Errorf("log came by %s: %q, want %s", resp.Proto, body, tt.want)
			}
			if resp, body := a.do(http.MethodGet, "/exec/default/web/app?output=1", nil); resp.StatusCode != http.StatusBadRequest {
				t.Errorf("exec without upgrade is %s %q", resp.Status, body)
			}
			c, _, err := a.dialWebSocket(execPath, "v5.channel.k8s.io")
			if err != nil {
				t.Fatal(err)
			}
			tell(t, c, 255, "\x00")
			if got := hear(t, c); !has(got[1], "got 0 bytes") {
				t.Errorf("a command over the same port said %q", got)
			}
		})
	}
}

const sleepPath = "/exec/default/web/app?command=sleep&output=1&input=1"

// What a command says first is there before anything else moves.
func TestFirstOutputComesAtOnce(t *testing.T) {
	a := newNode(t, runtimetest.Config{Exec: sleeps}).serve(t)
	for _, p := range []string{"v4.channel.k8s.io", "v5.channel.k8s.io"} {
		t.Run(p, func(t *testing.T) {
			c, _, err := a.with(t).dialWebSocket(sleepPath, p)
			if err != nil {
				t.Fatal(err)
			}
			for said := ""; said != "ready"; {
				m, err := next(t, c)
				if err != nil {
					t.Fatalf("the client heard %q (%v), want ready", said, err)
				}
				said += string(m[1:])
			}
		})
	}
}

func TestStreamsEndWhenNothingMoves(t *testing.T) {
	n := newNode(t, runtimetest.Config{Exec: sleeps})
	a := n.serve(t, func(c *server.Config) { c.Limits.StreamIdle = 5 * time.Second })
	for _, p := range []string{"v4.channel.k8s.io", "v5.channel.k8s.io"} {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			c, _, err := a.with(t).dialWebSocket(sleepPath, p)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = next(t, c)
			}
			if timedOut(err) {
				t.Errorf("the stream is still open after %s", bound)
			}
		})
	}
}

// timedOut reports whether an error of a connection is that its time is over.
func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// deaf is a runtime's streaming server that takes the streams of a command, and nothing after
// them.
func deaf(tb testing.TB, streams int) *url.URL {
	tb.Helper()
	gone := make(chan struct{})
	at := upgrades(tb, httptest.NewServer, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "SPDY/3.1")
		w.Header().Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		framer, err := framing.NewFramer(conn, buffered)
		for ; err == nil && streams > 0; streams-- {
			var f framing.Frame
			if f, err = framer.ReadFrame(); err != nil {
				return
			}
			if syn, ok := f.(*framing.SynStreamFrame); ok {
				err = framer.WriteFrame(&framing.SynReplyFrame{StreamId: syn.StreamId, Headers: http.Header{}})
			}
		}
		<-gone
	})
	tb.Cleanup(func() { close(gone) })
	return at
}

// A client that sends what the runtime does not take is cut off as any other.
func TestStreamsEndWhenTheRuntimeIsDeaf(t *testing.T) {
	block := append([]byte{0}, make([]byte, 1<<20)...)
	dial := func(t *testing.T, idle time.Duration) (*api, *websocket.Conn) {
		t.Helper()
		n := newNode(t, runtimetest.Config{})
		at := deaf(t, 3)
		a := n.serve(t, func(c *server.Config) { c.Containers.Streams, c.Limits.StreamIdle = elsewhere{at: at}, idle })
		c, _, err := a.dialWebSocket(sleepPath, "v5.channel.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		return a, c
	}
	send := func(t *testing.T, c *websocket.Conn, within time.Duration) error {
		t.Helper()
		for {
			if err := c.SetWriteDeadline(time.Now().Add(within)); err != nil {
				t.Fatal(err)
			}
			if err := c.WriteMessage(websocket.BinaryMessage, block); err != nil {
				return err
			}
		}
	}
	t.Run("nothing moves", func(t *testing.T) {
		_, c := dial(t, 2*time.Second)
		if err := send(t, c, bound); timedOut(err) {
			t.Errorf("the stream is still open after %s", bound)
		}
	})
	t.Run("the server ends", func(t *testing.T) {
		a, c := dial(t, 0)
		send(t, c, 2*time.Second) // until nothing fits between the two any more
		a.stop()
	})
}

func TestStreamsEndWithTheServer(t *testing.T) {
	n := newNode(t, runtimetest.Config{Exec: sleeps, Forward: forward})
	for name, open := range map[string]func(a *api) error{
		"channels": func(a *api) error {
			_, _, err := a.dialWebSocket(execPath, "v5.channel.k8s.io")
			return err
		},
		"old channels": func(a *api) error {
			_, _, err := a.dialWebSocket(execPath, "v4.channel.k8s.io")
			return err
		},
		"tunnel": func(a *api) error {
			_, _, err := a.dialWebSocket("/portForward/default/web", "SPDY/3.1+portforward.k8s.io")
			return err
		},
		"SPDY": func(a *api) error {
			c, err := a.dialSPDY("/exec/default/web/app?command=sh&input=1", "v4.channel.k8s.io")
			if err == nil {
				a.stream(c, "error")
				a.stream(c, "stdin")
			}
			return err
		},
		"log": func(a *api) error {
			req, err := http.NewRequestWithContext(a.tb.Context(), http.MethodGet, "https://"+a.host+"/containerLogs/default/web/app?follow=1", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := a.client.Do(req)
			if err == nil {
				a.tb.Cleanup(func() { resp.Body.Close() })
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The end of the test is that of the server, which waits for all that it serves.
			if err := open(n.serve(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	a := newNode(t, runtimetest.Config{}).serve(t, func(c *server.Config) { c.Limits.Connections = 8 })
	a.client.CloseIdleConnections()
	var open []net.Conn
	for range 4 {
		c := a.dial()
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !has(line, "200") {
			t.Fatalf("answer is %q, %v", line, err)
		}
		open = append(open, c)
	}
	// This address has its half.
	d := tls.Dialer{Config: insecure()}
	if c, err := d.DialContext(t.Context(), "tcp", a.host); err == nil {
		c.Close()
		t.Error("a fifth connection of one address was taken, want four of eight")
	}
	// Another address has room.
	d.NetDialer = &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := d.DialContext(t.Context(), "tcp", a.host)
	if err != nil {
		t.Fatalf("a connection of another address: %v", err)
	}
	c.Close()
	for _, c := range open {
		c.Close()
	}
	until(t, "room", func() bool {
		d := tls.Dialer{Config: insecure()}
		c, err := d.DialContext(t.Context(), "tcp", a.host)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func TestConfigIsChecked(t *testing.T) {
	fine := func() error { return nil }
	for name, tt := range map[string]struct {
		cfg  server.Config
		want string
	}{
		"check without a name": {server.Config{Health: []server.Check{{}}}, "Config.Health has a check without name"},
		"two checks of one name": {
			server.Config{Health: []server.Check{{Name: "loop", Fault: fine}, {Name: "other", Fault: fine}, {Name: "loop", Fault: fine}}},
			`Config.Health has two checks named "loop"`,
		},
		"check with a space": {server.Config{Health: []server.Check{{Name: "sync loop", Fault: fine}}}, `a check named "sync loop"`},
		"check with a brace": {server.Config{Health: []server.Check{{Name: "{loop", Fault: fine}}}, `a check named "{loop"`},
		"check with a slash": {server.Config{Health: []server.Check{{Name: "sync/loop", Fault: fine}}}, `a check named "sync/loop"`},
		"negative time":      {server.Config{Limits: server.Limits{Header: -1}}, "Config.Limits.Header is -1ns"},
		"negative number":    {server.Config{Limits: server.Limits{Connections: -1}}, "Connections is -1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := server.New(tt.cfg); err == nil || !has(err.Error(), tt.want) {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := server.NewCRI(nil, server.CRIConfig{}); err == nil {
		t.Error("a CRI without a runtime was made")
	}
	s, err := server.New(server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ServeTLS(t.Context(), l, nil); err == nil || !has(err.Error(), "no TLS configuration") {
		t.Errorf("without TLS: %v", err)
	}
	if err := s.ServeReadOnly(t.Context(), l); err == nil || !has(err.Error(), "serve on") {
		t.Errorf("on a listener that is closed: %v", err)
	}
}
