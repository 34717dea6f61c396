//go:build linux

package lease_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

// dropOld makes the kernel drop the packets of the connections that are open; new ones
// pass. Neither end is told: the connections are half-open.
const dropOld = `
table inet blackhole {
	set old { type inet_service; }
	chain out { type filter hook output priority 0; tcp sport @old drop; tcp dport @old drop; }
}`

// dropAll makes it drop all packets to a port, so that no connection opens either.
const dropAll = `
table inet blackhole {
	chain out { type filter hook output priority 0; tcp dport %d drop; tcp sport %d drop; }
}`

// testbed is a server in a network namespace, and a Link to it over TLS.
type testbed struct {
	ns     *netnstest.NS
	port   int
	server *leasetest.Server
	link   *lease.Link
	leases leasetest.Leases

	// open counts the sockets of the client.
	open atomic.Int32

	mu    sync.Mutex // guards ports
	ports []int
}

// socket is a connection of the client.
type socket struct {
	net.Conn
	once sync.Once
	open *atomic.Int32
}

func (s *socket) Close() error {
	s.once.Do(func() { s.open.Add(-1) })
	return s.Conn.Close()
}

func newTestbed(t *testing.T, http2 bool) *testbed {
	t.Helper()
	netnstest.NeedCommand(t, "nft")
	b := &testbed{ns: netnstest.New(t), server: leasetest.New()}
	l, err := b.ns.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.port = l.Addr().(*net.TCPAddr).Port
	srv := httptest.NewUnstartedServer(b.server)
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.EnableHTTP2 = http2
	srv.StartTLS()
	b.link = lease.NewLink(lease.LinkConfig{Dial: b.dial, DialTimeout: time.Second})
	base := &http.Transport{
		DialContext:       b.link.DialContext,
		TLSClientConfig:   &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"},
		ForceAttemptHTTP2: http2,
	}
	client := leasetest.Client{Base: srv.URL, HTTP: &http.Client{Transport: b.link.Wrap(base)}}
	b.leases = client.Leases(lease.DefaultNamespace)
	t.Cleanup(func() {
		b.link.Drop()
		base.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	return b
}

// dial opens a connection inside the namespace and remembers its port.
func (b *testbed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := b.ns.Do(func() error {
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ports = append(b.ports, conn.LocalAddr().(*net.TCPAddr).Port)
	b.open.Add(1)
	return &socket{Conn: conn, open: &b.open}, nil
}

// nft runs a script of nftables inside the namespace.
func (b *testbed) nft(t *testing.T, script string) {
	t.Helper()
	path := t.TempDir() + "/script"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := b.ns.Run("nft", "-f", path); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// silenceOpen drops the packets of all connections that have been opened.
func (b *testbed) silenceOpen(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	ports := strings.Trim(strings.ReplaceAll(fmt.Sprint(b.ports), " ", ", "), "[]")
	b.mu.Unlock()
	b.nft(t, fmt.Sprintf("add element inet blackhole old { %s }", ports))
}

// Connections that die without FIN or RST, again and again, in a real kernel.
func TestKernelHalfOpenConnections(t *testing.T) {
	cycles := 50
	if testing.Short() {
		cycles = 10
	}
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%t", http2), func(t *testing.T) {
			b := newTestbed(t, http2)
			b.nft(t, dropOld)
			renewed := make(chan struct{}, 1)
			start := time.Now()
			run(t, b.leases, lease.Config{
				Name: "node-a", Link: b.link,
				Duration: 4 * time.Second, Period: 50 * time.Millisecond, Timeout: 400 * time.Millisecond,
				Hooks: lease.Hooks{Renewed: func(lease.Renewal) {
					select {
					case renewed <- struct{}{}:
					default:
					}
				}},
			})
			<-renewed
			goroutines := runtime.NumGoroutine()
			for range cycles {
				b.silenceOpen(t)
				<-renewed // perhaps of before
				<-renewed
			}
			if gap := largestGap(start, b.server.Writes()); gap >= 4*time.Second {
				t.Errorf("the Lease was not renewed for %s, it lasts 4 s", gap)
			}
			if n := b.open.Load(); n > 1 {
				t.Errorf("the client has %d sockets after %d cycles, want 1", n, cycles)
			}
			// The server keeps a goroutine or three for each connection that died.
			if n := runtime.NumGoroutine(); n > goroutines+3*cycles+10 {
				t.Errorf("%d goroutines before, %d after %d cycles", goroutines, n, cycles)
			}
			if n := b.link.Connections(); n > 1 {
				t.Errorf("%d connections are open, want 1", n)
			}
		})
	}
}

// A server that cannot be reached at all for more than a third of the Lease.
func TestKernelUnreachableServer(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%t", http2), func(t *testing.T) {
			b := newTestbed(t, http2)
			start := time.Now()
			renewed := make(chan struct{}, 1000)
			run(t, b.leases, lease.Config{
				Name: "node-a", Link: b.link, Duration: 4 * time.Second,
				Hooks: lease.Hooks{Renewed: func(lease.Renewal) { renewed <- struct{}{} }},
			})
			<-renewed
			b.nft(t, fmt.Sprintf(dropAll, b.port, b.port))
			waitUntil(t, time.Now().Add(1500*time.Millisecond))
			b.nft(t, "delete table inet blackhole")
			<-renewed
			<-renewed
			if gap := largestGap(start, b.server.Writes()); gap >= 4*time.Second {
				t.Errorf("the Lease was not renewed for %s, it lasts 4 s", gap)
			}
		})
	}
}

// waitUntil waits for a moment; what is tested happens in between.
func waitUntil(t *testing.T, when time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(when))
	defer timer.Stop()
	<-timer.C
}

// run runs a Keeper until the test ends.
func run(t *testing.T, c lease.Client, cfg lease.Config) {
	t.Helper()
	k, err := lease.New(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = k.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
}
