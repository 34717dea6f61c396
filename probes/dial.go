package probes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrLocal says that this machine, and not the container, was at fault: it has no
// file descriptor, memory or local port left. A prober returns it as an error, so
// that it counts against no container.
var ErrLocal = errors.New("this machine is short of resources")

// Dial connects to addr over TCP for one attempt. It is for probers in other
// packages; those of this package use it too.
//
// Closing the connection leaves no TIME_WAIT socket on either side where the
// system allows it (Linux), so that frequent probes use up neither ports nor
// connection-tracking entries; the server still reads an orderly end of stream.
// Whatever was not yet sent or read then is dropped. There are no TCP
// keep-alives.
func Dial(ctx context.Context, addr string) (net.Conn, error) { return Reach(nil).dial(ctx, addr) }

// Reach decides which addresses may be connected to, for probes that name a host: the
// error says why one may not. It is asked about addresses, after names have been resolved,
// and is safe for use by several goroutines. nil: every address may.
type Reach func(netip.Addr) error

// dial is Dial to the addresses that may be connected to.
func (r Reach) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	if r != nil {
		d.Control = r.control
		if to, err := netip.ParseAddrPort(addr); err == nil {
			if err := r.permits(to.Addr()); err != nil {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
			}
			d.Control = nil // there is nothing else to connect to
		}
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	switch {
	case localFault(err):
		return nil, fmt.Errorf("%w: %w", ErrLocal, err)
	case err != nil:
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, nil
	}
	return probeConn{tcp}, nil
}

// control is called with each address before it is connected to.
func (r Reach) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return r.permits(to.Addr())
}

// permits asks r about an address.
func (r Reach) permits(ip netip.Addr) error {
	if err := r(ip.Unmap().WithZone("")); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
}

// ErrUnreachable says that a Reach does not let a probe connect to an address.
var ErrUnreachable = errors.New("probes may not connect to this address")

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
	return errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) || errors.Is(err, ErrLocal)
}

// localFault reports whether err is one of those that ErrLocal stands for.
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
