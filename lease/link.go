package lease

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// DialTimeout is the default of LinkConfig.DialTimeout: connections inside a cluster
// open in milliseconds, and a lost SYN is sent again after one second.
const DialTimeout = 5 * time.Second

// LinkConfig configures a Link. Its zero value works.
type LinkConfig struct {
	// Dial opens a connection; nil: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialTimeout is the longest that it may take; 0: DialTimeout.
	DialTimeout time.Duration
}

// Link is the way of one client to its server: it knows the client's connections, and
// closes them when a request was not answered, so that the next one opens a new
// connection. HTTP/2 alone would send request after request into a connection that is
// dead until the kernel gives up on it, which takes a quarter of an hour.
//
// A client has to dial by DialContext and to send its requests through Wrap. It should
// be the only one on the Link: when one request fails, all others on the Link fail too.
// With client-go:
//
//	config.Dial = link.DialContext
//	config.WrapTransport = link.Wrap
//
// A Link is safe for use by several goroutines.
type Link struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration

	mu sync.Mutex // guards the fields below
	// conns are the open connections.
	conns map[*conn]struct{}
	// dials are the connections that are being opened.
	dials map[*dialing]struct{}
	// drops counts the calls of Drop.
	drops int
	// skew is what the last answer said.
	skew time.Duration
}

// NewLink returns a Link without connections.
func NewLink(cfg LinkConfig) *Link {
	l := &Link{
		dial:    cfg.Dial,
		timeout: cfg.DialTimeout,
		conns:   map[*conn]struct{}{},
		dials:   map[*dialing]struct{}{},
	}
	if l.timeout <= 0 {
		l.timeout = DialTimeout
	}
	if l.dial == nil {
		l.dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	return l
}

// DialContext opens a connection that the Link knows.
func (l *Link) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	d := &dialing{cancel: cancel}
	l.mu.Lock()
	l.dials[d] = struct{}{}
	l.mu.Unlock()
	c, err := l.dial(ctx, network, address)

	l.mu.Lock()
	defer l.mu.Unlock()
	_, wanted := l.dials[d]
	delete(l.dials, d)
	if err != nil {
		return nil, err
	}
	if !wanted {
		return nil, errors.Join(errDropped, c.Close())
	}
	known := &conn{Conn: c, link: l}
	l.conns[known] = struct{}{}
	return known, nil
}

// dialing is a connection that is being opened.
type dialing struct{ cancel context.CancelFunc }

// errDropped is what requests see whose connection was dropped.
var errDropped = errors.New("lease: the connection was dropped after a request on it had failed")

// Drop closes all connections of the Link, those that are being opened too. Requests in
// flight fail; later ones open new connections.
func (l *Link) Drop() {
	l.mu.Lock()
	l.drops++
	conns := l.conns
	l.conns = map[*conn]struct{}{}
	for d := range l.dials {
		d.cancel()
	}
	clear(l.dials)
	l.mu.Unlock()
	for c := range conns {
		c.dropped.Store(true)
		_ = c.Conn.Close() // dead or not, it is not used any more
	}
}

// Connections returns how many connections are open.
func (l *Link) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Skew returns how far the server's clock is ahead of this machine's, at least, as the
// last answer told it; negative if it is behind. HTTP dates are whole seconds and an
// answer takes time: it is 0 as long as the clocks may agree, and before any answer.
func (l *Link) Skew() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.skew
}

// Wrap returns a transport that sends requests by base, reads the server's Date and
// drops the connections of the Link after a request that failed on its way or that was
// not answered before its deadline. Answers with an HTTP error drop nothing.
func (l *Link) Wrap(base http.RoundTripper) http.RoundTripper {
	return &transport{base: base, link: l}
}

// conn is a connection that the Link knows.
type conn struct {
	net.Conn
	link    *Link
	dropped atomic.Bool
}

// Read reads from the connection.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.explain(err)
}

// Write writes to the connection.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.explain(err)
}

// explain says of an error that the Link is its cause.
func (c *conn) explain(err error) error {
	if err != nil && c.dropped.Load() {
		return errDropped
	}
	return err
}

// Close closes the connection; the Link forgets it.
func (c *conn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}

// transport is what Wrap returns.
type transport struct {
	base http.RoundTripper
	link *Link
}

// replays is how often a request is sent again that met a dropped connection; each
// time the base forgets at least one.
const replays = 3

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := t.send(req)
	if err != nil {
		t.failed(req.Context(), err)
		return nil, err
	}
	t.link.note(resp.Header.Get("Date"), sent, time.Now())
	resp.Body = &body{ReadCloser: resp.Body, ctx: req.Context(), transport: t}
	return resp, nil
}

// send sends a request. The base may not know yet that a connection was dropped: then
// nothing of the request has left, and it is sent again.
func (t *transport) send(req *http.Request) (*http.Response, error) {
	drops := t.link.dropCount()
	resp, err := t.base.RoundTrip(req)
	for range replays {
		if !errors.Is(err, errDropped) || t.link.dropCount() != drops || req.Context().Err() != nil {
			break
		}
		again, ok := renewed(req)
		if !ok {
			break
		}
		resp, err = t.base.RoundTrip(again)
	}
	return resp, err
}

// renewed returns a request with its body as it was; false if that is gone.
func renewed(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again := req.Clone(req.Context())
	again.Body = body
	return again, true
}

// dropCount returns how often connections were dropped.
func (l *Link) dropCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drops
}

// failed drops the connections, unless it was the caller who gave up.
func (t *transport) failed(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return
	}
	t.link.Drop()
	t.CloseIdleConnections()
}

// CloseIdleConnections lets the base forget connections that are not in use.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// WrappedRoundTripper returns the base, for those who look for it by the interface
// RoundTripperWrapper of k8s.io/apimachinery.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// body is the body of an answer, which can stall as well.
type body struct {
	io.ReadCloser
	ctx       context.Context //nolint:containedctx // of the request, as in http.Request
	transport *transport
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.transport.failed(b.ctx, err)
	}
	return n, err
}

// note remembers the skew that the Date of an answer shows.
func (l *Link) note(date string, sent, received time.Time) {
	server, err := http.ParseTime(date)
	if err != nil {
		return // no date, no word about the clock
	}
	skew := skew(server, sent, received)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skew = skew
}

// skew returns the least amount by which a clock is ahead that read server, cut to
// the second, some time between sent and received; negative if it is behind.
func skew(server, sent, received time.Time) time.Duration {
	least, most := server.Sub(received), server.Add(time.Second).Sub(sent)
	switch {
	case least > 0:
		return least
	case most < 0:
		return most
	default:
		return 0
	}
}
