package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier/internal/netns"
)

// errNoCounters says that the kernel has no counters of nfnetlink_acct.
var errNoCounters = errors.New("the kernel has no nfnetlink_acct")

// Messages and attributes of linux/netfilter/nfnetlink_acct.h.
const (
	acctNew     = 0 // NFNL_MSG_ACCT_NEW
	acctGet     = 1 // NFNL_MSG_ACCT_GET
	acctName    = 1 // NFACCT_NAME
	acctPackets = 2 // NFACCT_PKTS
)

func (k kernel) ensureCounter(name string) error {
	_, err := k.counter(name)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	_, err = k.acct(acctNew, unix.NLM_F_CREATE|unix.NLM_F_ACK, name)
	return err
}

func (k kernel) counter(name string) (uint64, error) {
	reply, err := k.acct(acctGet, 0, name)
	if err != nil {
		return 0, err
	}
	return packetsOf(reply)
}

// acct sends one request about a counter and returns the payload of the answer.
func (k kernel) acct(kind, flags int, name string) ([]byte, error) {
	fd := -1
	err := netns.Do(k.netns, func() error {
		var err error
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return os.NewSyscallError("socket", err)
	})
	if err != nil {
		return nil, fmt.Errorf("counter %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	reply, err := exchange(fd, acctRequest(kind, flags, name))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		err = errors.Join(errNoCounters, err)
	}
	if err != nil {
		return nil, fmt.Errorf("counter %s: %w", name, err)
	}
	return reply, nil
}

// sizeofNfgenmsg is that of struct nfgenmsg of linux/netfilter/nfnetlink.h.
const sizeofNfgenmsg = 4

// acctRequest is a netlink message with the name of a counter.
func acctRequest(kind, flags int, name string) []byte {
	value := append([]byte(name), 0)
	size := unix.SizeofNlMsghdr + sizeofNfgenmsg + align(unix.SizeofNlAttr+len(value))
	m := make([]byte, size)
	binary.NativeEndian.PutUint32(m[0:], uint32(size))
	binary.NativeEndian.PutUint16(m[4:], uint16(unix.NFNL_SUBSYS_ACCT<<8|kind))
	binary.NativeEndian.PutUint16(m[6:], uint16(unix.NLM_F_REQUEST|flags))
	binary.NativeEndian.PutUint32(m[8:], 1) // the sequence number
	attr := m[unix.SizeofNlMsghdr+sizeofNfgenmsg:]
	binary.NativeEndian.PutUint16(attr[0:], uint16(unix.SizeofNlAttr+len(value)))
	binary.NativeEndian.PutUint16(attr[2:], acctName)
	copy(attr[unix.SizeofNlAttr:], value)
	return m
}

func align(n int) int { return (n + 3) &^ 3 }

// exchange sends a message and returns the payload of the first answer; that of a
// confirmation is empty.
func exchange(fd int, request []byte) ([]byte, error) {
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return nil, os.NewSyscallError("recvfrom", err)
	}
	return payload(buf[:n])
}

var errShortMessage = errors.New("a netlink message is cut short")

// payload returns what an answer holds, or the error that it is.
func payload(m []byte) ([]byte, error) {
	if len(m) < unix.SizeofNlMsghdr {
		return nil, errShortMessage
	}
	body := m[unix.SizeofNlMsghdr:]
	if binary.NativeEndian.Uint16(m[4:]) != unix.NLMSG_ERROR {
		return body, nil
	}
	if len(body) < 4 {
		return nil, errShortMessage
	}
	if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
		return nil, unix.Errno(-code)
	}
	return nil, nil
}

// packetsOf finds the number of packets in an answer about a counter.
func packetsOf(body []byte) (uint64, error) {
	if len(body) < sizeofNfgenmsg {
		return 0, errShortMessage
	}
	for attrs := body[sizeofNfgenmsg:]; len(attrs) >= unix.SizeofNlAttr; {
		size := int(binary.NativeEndian.Uint16(attrs))
		if size < unix.SizeofNlAttr || size > len(attrs) {
			break
		}
		const typeMask = 0x3fff // NLA_TYPE_MASK of linux/netlink.h
		if binary.NativeEndian.Uint16(attrs[2:])&typeMask == acctPackets && size >= unix.SizeofNlAttr+8 {
			return binary.BigEndian.Uint64(attrs[unix.SizeofNlAttr:]), nil
		}
		attrs = attrs[min(align(size), len(attrs)):]
	}
	return 0, errShortMessage
}

// isAbsent reports that a counter, or the kernel's support for counters, is not there.
func isAbsent(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, errNoCounters) }

func isUnsupported(err error) bool { return errors.Is(err, errNoCounters) }
