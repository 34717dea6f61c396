package probestest

import (
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Reply is what Replies answers. The zero value is a 200 without a body.
type Reply struct {
	// Status is the status code; zero means 200.
	Status int
	Header http.Header
	Body   string
	// Repeat is how many times Body is sent; zero means once.
	Repeat int
	// Delay is the time before anything is sent.
	Delay time.Duration
	// Stall is the time between the header and the body.
	Stall time.Duration
}

// Replies is an http.Handler that answers each path as told, and others with a
// 404.
type Replies map[string]Reply

// ServeHTTP answers with the Reply of the path.
func (r Replies) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	reply, ok := r[req.URL.Path]
	if !ok {
		http.NotFound(w, req)
		return
	}
	if !wait(req, reply.Delay) {
		return
	}
	maps.Copy(w.Header(), reply.Header)
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	if reply.Stall > 0 {
		_ = http.NewResponseController(w).Flush()
		if !wait(req, reply.Stall) {
			return
		}
	}
	for range max(reply.Repeat, 1) {
		if _, err := w.Write([]byte(reply.Body)); err != nil {
			return
		}
	}
}

// wait waits, and reports false when the client has gone meanwhile.
func wait(req *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-req.Context().Done():
		return false
	}
}

// Raw serves TCP connections on a port of 127.0.0.1 until the test ends, each with
// a call of serve in a goroutine of its own, and returns the address. serve need
// not close the connection. The test waits for every serve to return; closing the
// connections makes their reads end.
func Raw(tb testing.TB, serve func(net.Conn)) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen for probes: %v", err)
	}
	r := &rawServer{serve: serve}
	r.wg.Go(func() { r.accept(listener) })
	tb.Cleanup(func() {
		_ = listener.Close()
		r.closeAll()
		r.wg.Wait()
	})
	return listener.Addr().String()
}

type rawServer struct {
	serve func(net.Conn)
	wg    sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns []net.Conn
	over  bool
}

func (r *rawServer) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		over := r.over
		r.conns = append(r.conns, conn)
		r.mu.Unlock()
		if over {
			_ = conn.Close()
			return
		}
		r.wg.Go(func() {
			defer conn.Close()
			r.serve(conn)
		})
	}
}

func (r *rawServer) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

// Unused returns an address of 127.0.0.1 where nothing listens.
func Unused(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("find an unused port: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// HostPort splits the address or URL of a test server into host and port.
func HostPort(tb testing.TB, addr string) (host, port string) {
	tb.Helper()
	if _, rest, ok := strings.Cut(addr, "://"); ok {
		addr = rest
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatalf("split the address of a test server: %v", err)
	}
	return host, port
}
