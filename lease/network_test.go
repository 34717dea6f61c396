package lease_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

// world is an API server behind a network in memory, for use inside a synctest bubble.
// A test says from when to when what is broken.
type world struct {
	server *leasetest.Server
	link   *lease.Link
	client leasetest.Client
	accept chan net.Conn
	closed chan struct{}

	mu sync.Mutex // guards the fields below
	// fault breaks the answer to a request; nil: none.
	fault func(w http.ResponseWriter, r *http.Request) (broken bool)
	// refuse says that no connection opens; deaf, that new ones swallow everything.
	refuse, deaf bool
	conns        []*pipe
	requests     int
	dials        int
}

// newWorld starts a server; it ends with the test.
func newWorld(t *testing.T, protocols *http.Protocols) *world {
	t.Helper()
	w := &world{server: leasetest.New(), accept: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: http.HandlerFunc(w.serve), Protocols: protocols}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(w) })
	w.link = lease.NewLink(lease.LinkConfig{Dial: w.dial})
	base := &http.Transport{DialContext: w.link.DialContext, Protocols: protocols}
	w.client = leasetest.Client{Base: "http://api", HTTP: &http.Client{Transport: w.link.Wrap(base)}}
	t.Cleanup(func() {
		w.link.Drop()
		base.CloseIdleConnections()
		_ = srv.Close()
		wg.Wait()
	})
	return w
}

// serve is the server with its faults.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.requests++
	fault := w.fault
	w.mu.Unlock()
	// net/http notices that a client has gone only when it has read the request.
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	if fault != nil && fault(rw, r) {
		return
	}
	w.server.ServeHTTP(rw, r)
}

// set changes what is broken.
func (w *world) set(change func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// silence makes the connections that are open swallow everything, for good.
func (w *world) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.silence()
	}
}

func (w *world) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	w.mu.Lock()
	w.dials++
	refuse, deaf := w.refuse, w.deaf
	w.mu.Unlock()
	if refuse {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	c := &pipe{Conn: near, far: far, gone: make(chan struct{})}
	if deaf {
		c.silence()
	}
	w.set(func(w *world) { w.conns = append(w.conns, c) })
	select {
	case w.accept <- far:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (w *world) Accept() (net.Conn, error) {
	select {
	case c := <-w.accept:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *world) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (w *world) Addr() net.Addr { return &net.IPAddr{} }

// pipe is a connection that can go silent: what is written is lost, nothing comes back,
// and nobody is told.
type pipe struct {
	net.Conn
	far  net.Conn
	once sync.Once
	gone chan struct{}

	mu     sync.Mutex // guards silent
	silent bool
}

func (p *pipe) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

func (p *pipe) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent
}

func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if p.isSilent() {
		<-p.gone
		return 0, net.ErrClosed
	}
	return n, err
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.isSilent() {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.gone) })
	_ = p.far.Close()
	return p.Conn.Close()
}

// keep runs a Keeper until the test ends, and collects what it tells.
func keep(t *testing.T, c lease.Client, cfg lease.Config) *diary {
	t.Helper()
	d := &diary{start: time.Now()}
	cfg.Name = "node-a"
	cfg.Hooks = lease.Hooks{Renewed: d.renewed, Failed: d.failed}
	k, err := lease.New(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := k.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return d
}

// diary is what a Keeper told.
type diary struct {
	start time.Time

	mu       sync.Mutex // guards the fields below
	renewals []lease.Renewal
	failures []lease.Failure
}

func (d *diary) renewed(r lease.Renewal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renewals = append(d.renewals, r)
}

func (d *diary) failed(f lease.Failure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures = append(d.failures, f)
}

func (d *diary) all() ([]lease.Renewal, []lease.Failure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]lease.Renewal(nil), d.renewals...), append([]lease.Failure(nil), d.failures...)
}

// largestGap returns the longest time between two writes of the Lease, from a start
// until now.
func largestGap(start time.Time, writes []leasetest.Write) time.Duration {
	var gap time.Duration
	last := start
	for _, w := range writes {
		gap = max(gap, w.Time.Sub(last))
		last = w.Time
	}
	return max(gap, time.Since(last))
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }
