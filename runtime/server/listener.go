package server

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// bounded is a listener that closes connections which are too many, and those of one address
// that has too many, so that nobody alone keeps the API server out.
type bounded struct {
	net.Listener
	max int
	log *slog.Logger

	mu sync.Mutex // guards the fields below
	// all is how many connections are open, of how many each address has.
	all int
	of  map[netip.Addr]int
}

func newBounded(l net.Listener, most int, log *slog.Logger) *bounded {
	return &bounded{Listener: l, max: most, log: log, of: map[netip.Addr]int{}}
}

// Accept returns the next connection that there is room for.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := peer(c)
		if b.take(from) {
			return &counted{Conn: c, release: sync.OnceFunc(func() { b.release(from) })}, nil
		}
		b.log.Debug("connection was closed, there are too many", "from", from.String())
		c.Close()
	}
}

// take counts a connection, if there is room for it.
func (b *bounded) take(from netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= b.max || b.of[from] >= max(b.max/2, 1) {
		return false
	}
	b.all++
	b.of[from]++
	return true
}

func (b *bounded) release(from netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.of[from]--; b.of[from] == 0 {
		delete(b.of, from)
	}
}

// peer returns the address of the other end; those that have none count as one.
func peer(c net.Conn) netip.Addr {
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		return a.Addr().Unmap()
	}
	return netip.Addr{}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	release func()
}

// Close ends the connection.
func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}
