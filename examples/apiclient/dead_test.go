package apiclient_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a network in memory.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex // guards conns
	conns []*pipe
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	c := &pipe{Conn: ours}
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	select {
	case p.accept <- theirs:
		return c, nil
	case <-p.closed:
		return nil, errors.New("refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// silence loses all that is sent on the connections that are open, either way. No end
// is told.
func (p *pipes) silence() (conns int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.dead.Store(true)
	}
	return len(p.conns)
}

// pipe is a connection that can go dead.
type pipe struct {
	net.Conn
	dead atomic.Bool
}

func (c *pipe) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dead.Load() {
			return n, err
		}
	}
}

func (c *pipe) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A watch whose connection goes dead is there again within a minute, with the settings
// that the programs have: client-go pings after 30 s of silence and waits 15 s.
func TestWatchOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		p := &pods{names: []string{"first"}}
		config := serve(t, network, p)
		config.Dial = network.dial
		seen := watchPods(t, config)
		await(t, seen, "first", 20*time.Second)
		for _, name := range []string{"second", "third"} {
			network.silence()
			p.add(name)
			took := await(t, seen, name, time.Minute)
			t.Logf("%s was seen after %s", name, took)
			if took < 10*time.Second {
				t.Errorf("the watch was there again after %s: its connection was not dead", took)
			}
		}
	})
}
