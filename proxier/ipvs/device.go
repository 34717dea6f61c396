package ipvs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// DefaultDevice is the name of the device where Config names none: that of kube-proxy.
const DefaultDevice = "kube-ipvs0"

// alias is what `ip link` shows of a device that the Backend has taken over.
const alias = "nodekit: addresses of Services"

// device is a dummy device in one network namespace, which holds addresses so that the
// kernel hands packets to them to IPVS.
type device struct {
	nl   *netlink.Conn
	name string
	// index is 0 while the device is not known to be there.
	index uint32
}

// dialDevice connects to the routing tables of a network namespace.
func dialDevice(path, name string) (*device, error) {
	nl, err := dialNetlink(unix.NETLINK_ROUTE, path)
	if err != nil {
		return nil, fmt.Errorf("connect to rtnetlink: %w", err)
	}
	return &device{nl: nl, name: name}, nil
}

func (d *device) close() error { return d.nl.Close() }

// deviceState is what is known of the device and of all addresses of the namespace.
type deviceState struct {
	// exists tells that it is there, and ours that this Backend has taken it over before,
	// in whatever process.
	exists, ours bool
	// bound are its addresses, elsewhere those of other devices, sorted.
	bound, elsewhere []netip.Addr
}

// look reads the state.
func (d *device) look(ctx context.Context) (deviceState, error) {
	var s deviceState
	if err := d.find(ctx, &s); err != nil {
		return s, fmt.Errorf("look for the device %s: %w", d.name, err)
	}
	answers, err := execute(ctx, d.nl, netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETADDR, Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, unix.SizeofIfAddrmsg),
	})
	if err != nil {
		return s, fmt.Errorf("list the addresses of the node: %w", err)
	}
	for _, m := range answers {
		index, a, err := decodeAddress(m.Data)
		switch {
		case err != nil:
			return s, fmt.Errorf("list the addresses of the node: %w", err)
		case !a.IsValid():
		case s.exists && index == d.index:
			s.bound = append(s.bound, a)
		default:
			s.elsewhere = append(s.elsewhere, a)
		}
	}
	for _, list := range []*[]netip.Addr{&s.bound, &s.elsewhere} {
		slices.SortFunc(*list, netip.Addr.Compare)
		*list = slices.Compact(*list)
	}
	return s, nil
}

// find looks for the device by its name.
func (d *device) find(ctx context.Context, s *deviceState) error {
	d.index = 0
	a := netlink.NewAttributeEncoder()
	a.String(unix.IFLA_IFNAME, d.name)
	attrs, err := a.Encode()
	if err != nil {
		return err
	}
	answers, err := execute(ctx, d.nl, netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request},
		Data:   append(make([]byte, unix.SizeofIfInfomsg), attrs...),
	})
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range answers {
		if len(m.Data) < unix.SizeofIfInfomsg {
			return fmt.Errorf("an answer has %d bytes", len(m.Data))
		}
		attrs, err := netlink.NewAttributeDecoder(m.Data[unix.SizeofIfInfomsg:])
		if err != nil {
			return err
		}
		d.index = binary.NativeEndian.Uint32(m.Data[4:])
		s.exists = true
		for attrs.Next() {
			if attrs.Type() == unix.IFLA_IFALIAS {
				s.ours = attrs.String() == alias
			}
		}
		if err := attrs.Err(); err != nil {
			return err
		}
	}
	return nil
}

// ensure makes the device if it is not there, and turns it on: addresses of IPv6 have no
// routes on one that is off. It sends and takes nothing by itself. One that was there is not
// claimed: what stood beside it may have to go first.
func (d *device) ensure(ctx context.Context) error {
	if d.index == 0 {
		a := netlink.NewAttributeEncoder()
		a.String(unix.IFLA_IFNAME, d.name)
		a.Nested(unix.IFLA_LINKINFO, func(a *netlink.AttributeEncoder) error {
			a.String(unix.IFLA_INFO_KIND, "dummy")
			return nil
		})
		err := d.link(ctx, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, 0, a)
		if errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("make the device %s: %w: the kernel has no dummy devices: load the module dummy", d.name, proxier.ErrNotSupported)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make the device %s: %w", d.name, err)
		}
		if err := d.find(ctx, &deviceState{}); err != nil {
			return fmt.Errorf("look for the device %s: %w", d.name, err)
		}
		if err := d.claim(ctx); err != nil {
			return err
		}
	}
	// No link-local address: it would be a further one of the node. A kernel without IPv6
	// does not know what this is about.
	a := netlink.NewAttributeEncoder()
	a.Nested(unix.IFLA_AF_SPEC, func(a *netlink.AttributeEncoder) error {
		a.Nested(unix.AF_INET6, func(a *netlink.AttributeEncoder) error {
			const addrGenMode, none = 8, 1 // of linux/if_link.h
			a.Uint8(addrGenMode, none)
			return nil
		})
		return nil
	})
	_ = d.link(ctx, unix.RTM_SETLINK, 0, 0, a)
	if err := d.link(ctx, unix.RTM_NEWLINK, 0, unix.IFF_UP, netlink.NewAttributeEncoder()); err != nil {
		return fmt.Errorf("turn on the device %s: %w", d.name, err)
	}
	return nil
}

// claim marks the device as one that this Backend has taken over.
func (d *device) claim(ctx context.Context) error {
	a := netlink.NewAttributeEncoder()
	a.String(unix.IFLA_IFALIAS, alias)
	if err := d.link(ctx, unix.RTM_NEWLINK, 0, 0, a); err != nil {
		return fmt.Errorf("take over the device %s: %w", d.name, err)
	}
	return nil
}

// link sends a message about the device.
func (d *device) link(ctx context.Context, kind netlink.HeaderType, flags netlink.HeaderFlags, on uint32, a *netlink.AttributeEncoder) error {
	attrs, err := a.Encode()
	if err != nil {
		return err
	}
	info := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(info[4:], d.index)
	binary.NativeEndian.PutUint32(info[8:], on)
	binary.NativeEndian.PutUint32(info[12:], on)
	_, err = execute(ctx, d.nl, netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | flags}, Data: append(info, attrs...),
	})
	return err
}

// remove deletes the device, with its addresses. Not there is not an error.
func (d *device) remove(ctx context.Context) error {
	if err := d.find(ctx, &deviceState{}); err != nil || d.index == 0 {
		return err
	}
	err := d.link(ctx, unix.RTM_DELLINK, 0, 0, netlink.NewAttributeEncoder())
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete the device %s: %w", d.name, err)
	}
	d.index = 0
	return nil
}

// bind gives addresses to the device. Those it has are no error.
func (d *device) bind(ctx context.Context, addrs []netip.Addr) error {
	return d.addresses(ctx, unix.RTM_NEWADDR, netlink.Create|netlink.Replace, addrs)
}

// unbind takes addresses from the device. Those it does not have are no error.
func (d *device) unbind(ctx context.Context, addrs []netip.Addr) error {
	return d.addresses(ctx, unix.RTM_DELADDR, 0, addrs)
}

func (d *device) addresses(ctx context.Context, kind netlink.HeaderType, flags netlink.HeaderFlags, addrs []netip.Addr) error {
	messages := make([]netlink.Message, 0, len(addrs))
	for _, a := range addrs {
		data, err := d.encodeAddress(a)
		if err != nil {
			return err
		}
		messages = append(messages, netlink.Message{
			Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | flags}, Data: data,
		})
	}
	answers, err := batch(ctx, d.nl, messages)
	errs := []error{err}
	for i, err := range answers {
		if err == nil || errors.Is(err, unix.EEXIST) || kind == unix.RTM_DELADDR && errors.Is(err, unix.EADDRNOTAVAIL) {
			continue
		}
		what := "add %s to"
		if kind == unix.RTM_DELADDR {
			what = "delete %s from"
		}
		errs = append(errs, fmt.Errorf(what+" the device %s: %w", addrs[i], d.name, err))
	}
	return errors.Join(errs...)
}

// encodeAddress returns the message about one address. Those of IPv6 are used at once, and
// deprecated: the kernel shall not choose them as the source of connections of the node.
func (d *device) encodeAddress(addr netip.Addr) ([]byte, error) {
	head := []byte{unix.AF_INET, 32, 0, 0} // family, length, flags, scope
	a := netlink.NewAttributeEncoder()
	a.Bytes(unix.IFA_ADDRESS, addr.AsSlice())
	if addr.Is4() {
		a.Bytes(unix.IFA_LOCAL, addr.AsSlice())
	} else {
		head[0], head[1] = unix.AF_INET6, 128
		a.Uint32(unix.IFA_FLAGS, unix.IFA_F_NODAD|unix.IFA_F_NOPREFIXROUTE)
		// struct ifa_cacheinfo: preferred and valid for how long, made and changed when.
		life := binary.NativeEndian.AppendUint32(make([]byte, 4, 16), ^uint32(0))
		a.Bytes(unix.IFA_CACHEINFO, append(life, make([]byte, 8)...))
	}
	attrs, err := a.Encode()
	if err != nil {
		return nil, err
	}
	return append(binary.NativeEndian.AppendUint32(head, d.index), attrs...), nil
}

// decodeAddress reads struct ifaddrmsg with its attributes: the device and its own address,
// the zero one of another family.
func decodeAddress(data []byte) (index uint32, addr netip.Addr, err error) {
	if len(data) < unix.SizeofIfAddrmsg {
		return 0, addr, fmt.Errorf("an answer has %d bytes", len(data))
	}
	index = binary.NativeEndian.Uint32(data[4:])
	family := familyOf(uint16(data[0]))
	attrs, err := netlink.NewAttributeDecoder(data[unix.SizeofIfAddrmsg:])
	if err != nil {
		return 0, addr, err
	}
	for attrs.Next() {
		// IFA_ADDRESS is the other end of a point-to-point device where IFA_LOCAL is there.
		if attrs.Type() == unix.IFA_LOCAL || attrs.Type() == unix.IFA_ADDRESS && !addr.IsValid() {
			addr, _ = netip.AddrFromSlice(attrs.Bytes())
		}
	}
	if addr.IsValid() && proxier.FamilyOf(addr) != family {
		addr = netip.Addr{}
	}
	return index, addr, attrs.Err()
}
