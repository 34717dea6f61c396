package netnstest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// HasSCTP reports whether the kernel has SCTP. Many lack it.
func HasSCTP() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

// sctpSocket opens a socket of SCTP; the net package then takes it for one of TCP, which
// has the same calls.
func (ns *NS) sctpSocket(addr netip.AddrPort, use func(fd int, to unix.Sockaddr) error) (*os.File, error) {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()})
	if addr.Addr().Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	var f *os.File
	err := ns.Do(func() error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), "sctp "+addr.String())
		return use(fd, to)
	})
	if err != nil && f != nil {
		_ = f.Close()
	}
	return f, err
}

// ListenSCTP listens inside the namespace by SCTP.
func (ns *NS) ListenSCTP(addr netip.AddrPort) (net.Listener, error) {
	f, err := ns.sctpSocket(addr, func(fd int, to unix.Sockaddr) error {
		if err := unix.Bind(fd, to); err != nil {
			return err
		}
		return unix.Listen(fd, 1024) // who does not fit in is refused
	})
	if err != nil {
		return nil, fmt.Errorf("listen at %s by SCTP: %w", addr, err)
	}
	defer f.Close()
	return net.FileListener(f)
}

// DialSCTP connects from a port inside the namespace by SCTP; port 0 is any. SCTP mostly passes
// over the ICMP error that a refusal is, so it times out on one.
func (ns *NS) DialSCTP(port int, addr netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	f, err := ns.sctpSocket(addr, func(fd int, to unix.Sockaddr) error {
		from := unix.Sockaddr(&unix.SockaddrInet6{Port: port})
		if addr.Addr().Is4() {
			from = &unix.SockaddrInet4{Port: port}
		}
		if err := unix.Bind(fd, from); err != nil {
			return err
		}
		wait := unix.NsecToTimeval(timeout.Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait); err != nil {
			return err
		}
		err := unix.Connect(fd, to)
		switch {
		case errors.Is(err, unix.EINPROGRESS):
			return os.ErrDeadlineExceeded
		case errors.Is(err, unix.EINTR): // by a signal of the Go runtime; the kernel goes on
			return connected(fd, timeout)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s by SCTP: %w", addr, err)
	}
	defer f.Close()
	return net.FileConn(f)
}

// connected waits for the end of an attempt to connect that is under way.
func connected(fd int, timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; {
		left := max(time.Until(end), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(left.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return os.ErrDeadlineExceeded
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		return err
	}
}
