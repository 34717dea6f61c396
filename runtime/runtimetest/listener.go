package runtimetest

import (
	"context"
	"net"
	"sync"
)

// pipeListener hands both ends of net.Pipe to a dialer and an acceptor. Unlike a
// socket it blocks on channels only, which is what a synctest bubble can wait for.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	var err error
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		err = errDown
	case <-ctx.Done():
		err = ctx.Err()
	}
	// Closing an end of a pipe cannot fail.
	_ = here.Close()
	_ = there.Close()
	return nil, &net.OpError{Op: "dial", Net: "memory", Err: err}
}

// Accept waits for a dialer.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is the same for all listeners.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

// Network returns "memory".
func (pipeAddr) Network() string { return "memory" }

// String returns the path that stands for the server.
func (pipeAddr) String() string { return memoryPath }
