package probes

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Dial connects to addr over TCP for one attempt. It is for probers in other
// packages; those of this package use it too.
//
// Closing the connection leaves no TIME_WAIT socket on either side where the
// system allows it (Linux), so that frequent probes use up neither ports nor
// connection-tracking entries; the server still reads an orderly end of stream.
// Whatever was not yet sent or read then is dropped. There are no TCP
// keep-alives.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, nil
	}
	return probeConn{tcp}, nil
}

// probeConn is a connection that serves one attempt.
type probeConn struct{ *net.TCPConn }

// Close ends the connection without leaving a socket in TIME_WAIT.
func (c probeConn) Close() error {
	shed(c.TCPConn)
	return c.TCPConn.Close()
}

// noAnswer reports whether an exchange that ended with err told nothing about
// the container, because it was cancelled or this machine was at fault. A
// deadline that passed is an answer.
func noAnswer(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return true
	}
	return localFault(err)
}

// localFault reports whether err is this machine's: no file descriptor, memory or
// local port is left.
func localFault(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return false
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL:
		return true
	}
	return false
}
