package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	vipPort = 80
	podPort = 8080
)

// serveEndpoints answers at every address of the endpoints' namespace with the
// address that was asked. It ends when the listener is closed.
func serveEndpoints(net *network) (io.Closer, error) {
	var fd int
	err := inside(net.endpoints, func() error {
		var err error
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, &unix.SockaddrInet4{Port: podPort}),
			unix.Listen(fd, 4096))
	})
	if err != nil {
		return nil, fmt.Errorf("serve endpoints: %w", err)
	}
	for range 4 {
		go accept(fd)
	}
	return listener(fd), nil
}

type listener int

func (l listener) Close() error {
	return errors.Join(unix.Shutdown(int(l), unix.SHUT_RDWR), unix.Close(int(l)))
}

func accept(listener int) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		if at, err := unix.Getsockname(fd); err == nil {
			if v4, ok := at.(*unix.SockaddrInet4); ok {
				_, _ = unix.Write(fd, v4.Addr[:])
			}
		}
		_ = unix.Close(fd)
	}
}

// ask connects from the namespace of the calling thread and returns the address that
// answered.
func ask(to netip.AddrPort, patience time.Duration) (netip.Addr, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		// Close at once: sockets that wait would use up the ports.
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	if err != nil {
		return netip.Addr{}, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return netip.Addr{}, err
	}
	var b [4]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return netip.Addr{}, err
	}
	if n != len(b) {
		return netip.Addr{}, net.ErrClosed
	}
	return netip.AddrFrom4(b), nil
}
