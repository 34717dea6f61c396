package ipvs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Numbers of linux/genetlink.h and linux/ip_vs.h.
const (
	genlController = 0x10
	genlVersion    = 1
	genlHeader     = 4 // bytes of struct genlmsghdr
	ctrlGetFamily  = 3
	ctrlAttrID     = 1
	ctrlAttrName   = 2

	cmdNewService = 1
	cmdSetService = 2
	cmdDelService = 3
	cmdGetService = 4
	cmdNewDest    = 5
	cmdSetDest    = 6
	cmdDelDest    = 7
	cmdGetDest    = 8
	cmdSetConfig  = 12

	attrService    = 1
	attrDest       = 2
	attrTCPTimeout = 4
	attrFINTimeout = 5
	attrUDPTimeout = 6

	serviceFamily    = 1
	serviceProtocol  = 2
	serviceAddr      = 3
	servicePort      = 4
	serviceMark      = 5
	serviceScheduler = 6
	serviceFlags     = 7
	serviceTimeout   = 8
	serviceNetmask   = 9

	destAddr     = 1
	destPort     = 2
	destForward  = 3
	destWeight   = 4
	destUpper    = 5
	destLower    = 6
	destActive   = 7
	destInactive = 8
	destFamily   = 11

	// forwardMask cuts the method out of the flags of a real server; 0 is to masquerade.
	forwardMask = 0x7
	sizeofAddr  = 16 // union nf_inet_addr
)

var errNoIPVS = fmt.Errorf("%w: the kernel has no IPVS: load the module ip_vs, or choose another mode", proxier.ErrNotSupported)

// connection is a netlink socket to IPVS in one network namespace.
type connection struct {
	nl     *netlink.Conn
	family uint16
}

// dialNetlink opens a socket in the network namespace at path; empty is that of the
// process.
func dialNetlink(protocol int, path string) (*netlink.Conn, error) {
	cfg := &netlink.Config{}
	if path != "" {
		ns, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open network namespace: %w", err)
		}
		defer ns.Close()
		cfg.NetNS = int(ns.Fd())
	}
	return netlink.Dial(protocol, cfg)
}

// dialIPVS connects to IPVS. It returns errNoIPVS on a kernel without.
func dialIPVS(path string) (*connection, error) {
	nl, err := dialNetlink(unix.NETLINK_GENERIC, path)
	if err != nil {
		return nil, fmt.Errorf("connect to IPVS over netlink: %w", err)
	}
	c := &connection{nl: nl}
	if err := c.findFamily(); err != nil {
		return nil, errors.Join(err, nl.Close())
	}
	return c, nil
}

func (c *connection) close() error { return c.nl.Close() }

// findFamily asks for the number of IPVS among the families of generic netlink.
func (c *connection) findFamily() error {
	attrs := netlink.NewAttributeEncoder()
	attrs.String(ctrlAttrName, "IPVS")
	name, err := attrs.Encode()
	if err != nil {
		return err
	}
	answers, err := c.nl.Execute(message(genlController, ctrlGetFamily, 0, name))
	if errors.Is(err, unix.ENOENT) {
		return errNoIPVS
	}
	if err != nil {
		return fmt.Errorf("look for IPVS: %w", err)
	}
	for _, m := range answers {
		d, err := decoder(m.Data)
		if err != nil {
			return err
		}
		for d.Next() {
			if d.Type() == ctrlAttrID {
				c.family = d.Uint16()
			}
		}
		if err := d.Err(); err != nil {
			return err
		}
	}
	if c.family == 0 {
		return errNoIPVS
	}
	return nil
}

func message(family uint16, command uint8, flags netlink.HeaderFlags, attrs []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(family), Flags: netlink.Request | flags},
		Data:   append([]byte{command, genlVersion, 0, 0}, attrs...),
	}
}

// decoder reads the attributes of an answer.
func decoder(data []byte) (*netlink.AttributeDecoder, error) {
	if len(data) < genlHeader {
		return nil, fmt.Errorf("an answer of IPVS has %d bytes", len(data))
	}
	return netlink.NewAttributeDecoder(data[genlHeader:])
}

// servers lists the virtual servers.
func (c *connection) servers(ctx context.Context) ([]foundServer, error) {
	answers, err := execute(ctx, c.nl, message(c.family, cmdGetService, netlink.Dump, nil))
	if err != nil {
		return nil, fmt.Errorf("list the virtual servers of IPVS: %w", err)
	}
	out := make([]foundServer, 0, len(answers))
	for _, m := range answers {
		s, err := decodeServer(m.Data)
		if err != nil {
			return nil, fmt.Errorf("list the virtual servers of IPVS: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}

// targets lists the real servers of a virtual server.
func (c *connection) targets(ctx context.Context, k serverKey) ([]foundTarget, error) {
	attrs := netlink.NewAttributeEncoder()
	attrs.Nested(attrService, k.encode)
	data, err := attrs.Encode()
	if err != nil {
		return nil, err
	}
	answers, err := execute(ctx, c.nl, message(c.family, cmdGetDest, netlink.Dump, data))
	if err != nil {
		return nil, fmt.Errorf("list the real servers of %s: %w", k, err)
	}
	out := make([]foundTarget, 0, len(answers))
	for _, m := range answers {
		t, err := decodeTarget(m.Data, k.family)
		if err != nil {
			return nil, fmt.Errorf("list the real servers of %s: %w", k, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// do carries out operations and returns an error for each, nil where it went well. The
// last result is not nil when the connection broke and the rest is unknown.
func (c *connection) do(ctx context.Context, ops []op) ([]error, error) {
	messages := make([]netlink.Message, 0, len(ops))
	for _, o := range ops {
		command, attrs, err := o.encode()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o, err)
		}
		messages = append(messages, message(c.family, command, netlink.Acknowledge, attrs))
	}
	return batch(ctx, c.nl, messages)
}

// setTimeouts sets those that are not 0.
func (c *connection) setTimeouts(ctx context.Context, tcp, fin, udp time.Duration) error {
	attrs := netlink.NewAttributeEncoder()
	for kind, d := range map[uint16]time.Duration{attrTCPTimeout: tcp, attrFINTimeout: fin, attrUDPTimeout: udp} {
		attrs.Uint32(kind, uint32(d/time.Second))
	}
	data, err := attrs.Encode()
	if err != nil {
		return err
	}
	if _, err := execute(ctx, c.nl, message(c.family, cmdSetConfig, netlink.Acknowledge, data)); err != nil {
		return fmt.Errorf("set the timeouts of IPVS: %w", err)
	}
	return nil
}

// dumpTries is how often a listing is begun: who changes what is listed interrupts it.
const dumpTries = 10

var errInterrupted = errors.New("others change it all the time, so that it cannot be listed")

// execute sends a message and returns the answers; a listing is begun anew when it was
// interrupted, since it may lack something. It gives up when ctx ends.
func execute(ctx context.Context, c *netlink.Conn, m netlink.Message) (out []netlink.Message, err error) {
	for range dumpTries {
		err = within(ctx, c, func() error {
			out, err = c.Execute(m)
			return err
		})
		if err != nil || !slices.ContainsFunc(out, interrupted) {
			return out, err
		}
	}
	return nil, errInterrupted
}

func interrupted(m netlink.Message) bool { return m.Header.Flags&netlink.DumpInterrupted != 0 }

func within(ctx context.Context, c *netlink.Conn, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := f()
	if !stop() {
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// atOnce is how many messages go out before their answers are read: these have to fit
// into the socket's buffer, which has room for about 270 by default.
const atOnce = 100

// batch sends messages that ask to be acknowledged, and returns the kernel's answer to
// each. The kernel handles them in order.
func batch(ctx context.Context, c *netlink.Conn, messages []netlink.Message) ([]error, error) {
	out := make([]error, 0, len(messages))
	err := within(ctx, c, func() error {
		for len(messages) > 0 {
			n := min(len(messages), atOnce)
			if _, err := c.SendMessages(messages[:n]); err != nil {
				return err
			}
			for range n {
				_, err := c.Receive()
				if broken(err) {
					return err
				}
				out = append(out, err)
			}
			messages = messages[n:]
		}
		return nil
	})
	return out, err
}

// broken reports whether an error is the socket's rather than an answer of the kernel.
func broken(err error) bool {
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*netlink.OpError](err); ok && e.Timeout() {
		return true
	}
	_, isErrno := errors.AsType[unix.Errno](err)
	return !isErrno || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EBADF)
}

func (k serverKey) encode(a *netlink.AttributeEncoder) error {
	a.Uint16(serviceFamily, addressFamily(k.family))
	if k.mark != 0 {
		a.Uint32(serviceMark, k.mark)
		return nil
	}
	a.Uint16(serviceProtocol, uint16(k.proto))
	a.Bytes(serviceAddr, encodeAddr(k.at.Addr()))
	a.Bytes(servicePort, binary.BigEndian.AppendUint16(nil, k.at.Port()))
	return nil
}

func addressFamily(f proxier.Family) uint16 {
	if f == proxier.IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// encodeAddr returns an address as union nf_inet_addr.
func encodeAddr(a netip.Addr) []byte {
	b := make([]byte, sizeofAddr)
	copy(b, a.AsSlice())
	return b
}

func (o op) encode() (command uint8, data []byte, err error) {
	a := netlink.NewAttributeEncoder()
	a.Nested(attrService, func(a *netlink.AttributeEncoder) error {
		if o.kind == addServer || o.kind == setServer {
			o.encodeSettings(a)
		}
		return o.server.encode(a)
	})
	if o.kind >= addTarget {
		a.Nested(attrDest, func(a *netlink.AttributeEncoder) error { return o.encodeTarget(a) })
	}
	data, err = a.Encode()
	return [...]uint8{
		addServer: cmdNewService, setServer: cmdSetService, deleteServer: cmdDelService,
		addTarget: cmdNewDest, setTarget: cmdSetDest, deleteTarget: cmdDelDest,
	}[o.kind], data, err
}

func (o op) encodeSettings(a *netlink.AttributeEncoder) {
	a.String(serviceScheduler, o.scheduler)
	// struct ip_vs_flags: flags and which of them count.
	flags := binary.NativeEndian.AppendUint32(nil, o.flags)
	a.Bytes(serviceFlags, binary.NativeEndian.AppendUint32(flags, ^uint32(0)))
	a.Uint32(serviceTimeout, o.timeout)
	// A client is an address: all bits of one of IPv4, in network order, or their number.
	mask := ^uint32(0)
	if o.server.family == proxier.IPv6 {
		mask = 128
	}
	a.Uint32(serviceNetmask, mask)
}

func (o op) encodeTarget(a *netlink.AttributeEncoder) error {
	a.Uint16(destFamily, addressFamily(o.server.family))
	a.Bytes(destAddr, encodeAddr(o.target.at.Addr()))
	a.Bytes(destPort, binary.BigEndian.AppendUint16(nil, o.target.at.Port()))
	if o.kind != deleteTarget {
		a.Uint32(destForward, 0)
		a.Uint32(destWeight, uint32(o.target.weight))
		a.Uint32(destUpper, 0)
		a.Uint32(destLower, 0)
	}
	return nil
}

// decodeServer reads an answer to cmdGetService.
func decodeServer(data []byte) (foundServer, error) {
	var s foundServer
	outer, err := decoder(data)
	if err != nil {
		return s, err
	}
	for outer.Next() {
		if outer.Type() == attrService {
			outer.Nested(s.decode)
		}
	}
	return s, outer.Err()
}

func (s *foundServer) decode(d *netlink.AttributeDecoder) error {
	var addr []byte
	var port uint16
	for d.Next() {
		switch d.Type() {
		case serviceFamily:
			s.key.family = familyOf(d.Uint16())
		case serviceProtocol:
			s.key.proto = proxier.Protocol(d.Uint16())
		case serviceAddr:
			addr = d.Bytes()
		case servicePort:
			port = portOf(d.Bytes())
		case serviceMark:
			s.key.mark = d.Uint32()
		case serviceScheduler:
			s.scheduler = d.String()
		case serviceFlags:
			if b := d.Bytes(); len(b) >= 4 {
				s.flags = binary.NativeEndian.Uint32(b) & ourFlags
			}
		case serviceTimeout:
			s.timeout = d.Uint32()
		}
	}
	if s.flags&flagPersistent == 0 {
		s.timeout = 0
	}
	if s.key.mark != 0 {
		s.key = serverKey{family: s.key.family, mark: s.key.mark}
		return nil
	}
	var err error
	s.key.at, err = decodeAddr(s.key.family, addr, port)
	return err
}

func familyOf(af uint16) proxier.Family {
	switch af {
	case unix.AF_INET:
		return proxier.IPv4
	case unix.AF_INET6:
		return proxier.IPv6
	}
	return 0
}

func portOf(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

// decodeAddr reads union nf_inet_addr.
func decodeAddr(f proxier.Family, b []byte, port uint16) (netip.AddrPort, error) {
	size := map[proxier.Family]int{proxier.IPv4: 4, proxier.IPv6: sizeofAddr}[f]
	if size == 0 || len(b) < size {
		return netip.AddrPort{}, fmt.Errorf("an address of %s has %d bytes", f, len(b))
	}
	a, _ := netip.AddrFromSlice(b[:size])
	return netip.AddrPortFrom(a, port), nil
}

// decodeTarget reads an answer to cmdGetDest about a virtual server of family f.
func decodeTarget(data []byte, f proxier.Family) (foundTarget, error) {
	var t foundTarget
	outer, err := decoder(data)
	if err != nil {
		return t, err
	}
	for outer.Next() {
		if outer.Type() == attrDest {
			outer.Nested(func(d *netlink.AttributeDecoder) error { return t.decode(d, f) })
		}
	}
	return t, outer.Err()
}

func (t *foundTarget) decode(d *netlink.AttributeDecoder, f proxier.Family) error {
	var addr []byte
	var port uint16
	for d.Next() {
		switch d.Type() {
		case destFamily:
			f = familyOf(d.Uint16())
		case destAddr:
			addr = d.Bytes()
		case destPort:
			port = portOf(d.Bytes())
		case destForward:
			t.masquerades = d.Uint32()&forwardMask == 0
		case destWeight:
			t.weight = uint16(min(d.Uint32(), 1<<16-1))
		case destActive, destInactive:
			t.connections += uint64(d.Uint32())
		}
	}
	var err error
	t.at, err = decodeAddr(f, addr, port)
	return err
}

// noServers is IPVS on a kernel that has none.
type noServers struct{}

func (noServers) servers(context.Context) ([]foundServer, error) { return nil, nil }

func (noServers) targets(context.Context, serverKey) ([]foundTarget, error) { return nil, errNoIPVS }

func (noServers) do(context.Context, []op) ([]error, error) { return nil, errNoIPVS }

func (noServers) setTimeouts(context.Context, time.Duration, time.Duration, time.Duration) error {
	return errNoIPVS
}

func (noServers) close() error { return nil }
