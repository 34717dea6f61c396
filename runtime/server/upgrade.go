package server

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// The headers of an upgrade. SPDY clients say in streamProtocol which versions of the
// protocol inside they speak, servers which one it is.
const (
	streamProtocol = "X-Stream-Protocol-Version"
	spdyUpgrade    = "SPDY/3.1"
)

// isUpgrade reports whether the connection is to be used for something else than HTTP.
func isUpgrade(r *http.Request) bool {
	for _, v := range r.Header.Values("Connection") {
		if strings.Contains(strings.ToLower(v), "upgrade") {
			return true
		}
	}
	return false
}

// isWebSocket reports whether it is to be a WebSocket.
func isWebSocket(r *http.Request) bool {
	return isUpgrade(r) && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// dialTime is how long a runtime may take to answer the request for a stream.
const dialTime = 30 * time.Second

// maxRefusal is how many bytes of a runtime's refusal are handed on.
const maxRefusal = 64 << 10

// upgraded is a connection to the runtime's streaming server after its answer.
type upgraded struct {
	net.Conn
	// answer is what it said; its body is closed.
	answer *http.Response
	// refusal is the body of an answer other than 101.
	refusal []byte
	// rest has what came behind the answer.
	rest *bufio.Reader
}

// Read reads what came behind the answer first.
func (u *upgraded) Read(b []byte) (int, error) { return u.rest.Read(b) }

// closedOnce is a connection that may be closed again.
type closedOnce struct {
	net.Conn
	once sync.Once
}

// Close ends the connection.
func (c *closedOnce) Close() error {
	var err error
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

// passed are the headers that concern the stream. The others are the client's and the
// API server's business, such as what proves who they are.
func passed() []string {
	return []string{
		"Connection", "Upgrade", streamProtocol, "User-Agent",
		"Sec-Websocket-Extensions", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version",
	}
}

// upgrade asks the runtime's streaming server to upgrade a connection. An answer other than
// 101 is no error; the connection is closed then.
func (s *Server) upgrade(ctx context.Context, method string, to *url.URL, header http.Header) (*upgraded, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("the runtime's URL of the stream: %w", err)
	}
	for _, name := range passed() {
		if v := header.Values(name); len(v) > 0 {
			req.Header[name] = v
		}
	}
	conn, err := dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("connect to the runtime's streaming server: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	u, err := ask(conn, req)
	switch {
	case err == nil && !stop():
		err = context.Cause(ctx) // it was closed meanwhile
	case err == nil && u.answer.StatusCode == http.StatusSwitchingProtocols:
		return u, nil
	}
	stop()
	conn.Close()
	if err != nil {
		return nil, fmt.Errorf("ask the runtime's streaming server: %w", err)
	}
	return u, nil
}

// ask sends a request and reads the answer, without the bytes of the stream behind it.
func ask(conn net.Conn, req *http.Request) (*upgraded, error) {
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	u := &upgraded{Conn: &closedOnce{Conn: conn}, rest: bufio.NewReader(conn)}
	var err error
	if u.answer, err = http.ReadResponse(u.rest, req); err != nil {
		return nil, err
	}
	defer u.answer.Body.Close()
	if u.answer.StatusCode != http.StatusSwitchingProtocols {
		u.refusal, err = io.ReadAll(io.LimitReader(u.answer.Body, maxRefusal))
	}
	return u, err
}

// dial connects to a URL.
func dial(ctx context.Context, to *url.URL) (net.Conn, error) {
	host, port := to.Hostname(), to.Port()
	switch to.Scheme {
	case "http":
		var d net.Dialer
		return d.DialContext(ctx, "tcp", net.JoinHostPort(host, cmp.Or(port, "80")))
	case "https":
		// On this machine the runtime proves itself by a token that only it can have made;
		// its certificate there is one that nobody signed.
		ip, err := netip.ParseAddr(host)
		local := err == nil && ip.IsLoopback()
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: local, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}} //nolint:gosec // see above
		return d.DialContext(ctx, "tcp", net.JoinHostPort(host, cmp.Or(port, "443")))
	}
	return nil, fmt.Errorf("URL with scheme %q, want http or https", to.Scheme)
}

// refuse hands the runtime's refusal on.
func (u *upgraded) refuse(w http.ResponseWriter) {
	if t := u.answer.Header.Get("Content-Type"); t != "" {
		w.Header().Set("Content-Type", t)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	code := u.answer.StatusCode
	if code < http.StatusOK { // no answer of its own, as 100
		code = http.StatusBadGateway
	}
	w.WriteHeader(code)
	_, _ = w.Write(u.refusal) // who asked may have gone
}

// proxy lets the runtime's streaming server speak with the client: neither the protocol nor
// what is said matters here.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request, to *url.URL) {
	up, err := s.upgrade(r.Context(), r.Method, to, r.Header)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	if up.answer.StatusCode != http.StatusSwitchingProtocols {
		up.refuse(w)
		return
	}
	defer up.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("take the connection over: %v", err))
		return
	}
	defer client.Close()
	if err := sendSwitch(client, up.answer.Header); err != nil {
		s.log.Debug("client has gone before its stream began", "err", err)
		return
	}
	s.pipe(r.Context(), &hijacked{Conn: client, rest: buffered.Reader}, up)
}

// sendSwitch sends the answer that the runtime gave.
func sendSwitch(conn net.Conn, header http.Header) error {
	if err := conn.SetWriteDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := header.Write(&b); err != nil {
		return err
	}
	b.WriteString("\r\n")
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return err
	}
	return conn.SetWriteDeadline(time.Time{})
}

// hijacked is a client's connection with what net/http had read of it.
type hijacked struct {
	net.Conn
	// rest is nil once it is empty.
	rest *bufio.Reader
}

// Read reads what net/http had read first.
func (h *hijacked) Read(b []byte) (int, error) {
	if h.rest != nil && h.rest.Buffered() > 0 {
		return h.rest.Read(b[:min(len(b), h.rest.Buffered())])
	}
	h.rest = nil
	return h.Conn.Read(b)
}

// bye implements client.
func (h *hijacked) bye() {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // it may have gone
	}
	_ = h.SetReadDeadline(time.Now().Add(closeTime))
}

// wantsChannels reports whether a client wants a WebSocket of the protocol that no runtime
// speaks, whose streams can be closed one by one.
func wantsChannels(r *http.Request) bool {
	return isWebSocket(r) && slices.Contains(websocket.Subprotocols(r), channelsV5)
}
