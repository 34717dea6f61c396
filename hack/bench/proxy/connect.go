package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
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
// answered. It polls, since the kernel rounds timeouts of sockets up to its ticks, which
// are as long as what is measured here.
func ask(to netip.AddrPort, patience time.Duration) (netip.Addr, error) {
	deadline := time.Now().Add(patience)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return netip.Addr{}, err
	}
	defer unix.Close(fd)
	// Close at once: sockets that wait would use up the ports.
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return netip.Addr{}, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return netip.Addr{}, err
	}
	// The answer comes after the connection: waiting for it is waiting for both.
	if err := await(fd, deadline); err != nil {
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

// await waits until fd has something to read, an error included.
func await(fd int, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		limit := unix.NsecToTimespec(left.Nanoseconds())
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, &limit, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
	}
}
