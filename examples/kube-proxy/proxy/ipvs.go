package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ipvsDevice is what kube-proxy's ipvs mode binds the addresses of Services to. Where it
// is not, that mode has not run since the host started.
const ipvsDevice = "kube-ipvs0"

// errNoIPVS says that the device of ipvs mode is there on a kernel that has no IPVS.
var errNoIPVS = errors.New("the kernel has no IPVS (module ip_vs), so that its virtual servers cannot be looked at")

// removeIPVS removes what kube-proxy's ipvs mode left in the network namespace of the
// calling thread: the virtual servers but those in exclude, the device, and the sets, to
// which no rule may lead any more. The servers are all those that there are: ipvs mode
// removes what it does not know, too.
func removeIPVS(ctx context.Context, exclude []netip.Prefix) error {
	device, err := net.InterfaceByName(ipvsDevice)
	if err != nil {
		return nil // nothing is left
	}
	errs := []error{removeVirtualServers(ctx, exclude)}
	if err := deleteLink(device.Index); err != nil {
		errs = append(errs, fmt.Errorf("delete the device %s: %w", ipvsDevice, err))
	}
	errs = append(errs, destroySets(ctx))
	return errors.Join(errs...)
}

// Numbers of linux/genetlink.h and linux/ip_vs.h.
const (
	genlVersion       = 1
	ctrlGetFamily     = 3
	ctrlAttrID        = 1
	ctrlAttrName      = 2
	ipvsDeleteService = 3
	ipvsGetService    = 4
	ipvsAttrService   = 1
	ipvsServiceAddr   = 3
	ipvsServiceMax    = 5 // family, protocol, address, port and mark name a service
)

func genl(family uint16, command uint8, flags netlink.HeaderFlags, attrs []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(family), Flags: netlink.Request | flags},
		Data:   append([]byte{command, genlVersion, 0, 0}, attrs...), // struct genlmsghdr
	}
}

// removeVirtualServers removes those whose address is not in exclude.
func removeVirtualServers(ctx context.Context, exclude []netip.Prefix) error {
	c, err := netlink.Dial(unix.NETLINK_GENERIC, nil)
	if err != nil {
		return fmt.Errorf("connect to IPVS over netlink: %w", err)
	}
	defer func() { _ = c.Close() }()
	family, err := ipvsFamily(c)
	if err != nil {
		return err
	}
	answers, err := c.Execute(genl(family, ipvsGetService, netlink.Dump, nil))
	if err != nil {
		return fmt.Errorf("list the virtual servers of IPVS: %w", err)
	}
	var errs []error
	for _, m := range answers {
		name, addr, err := virtualServer(m)
		if err == nil && ctx.Err() == nil && !slices.ContainsFunc(exclude, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			_, err = c.Execute(genl(family, ipvsDeleteService, netlink.Acknowledge, name))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete the virtual server at %s: %w", addr, err))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// ipvsFamily returns the number of IPVS among the families of generic netlink.
func ipvsFamily(c *netlink.Conn) (uint16, error) {
	const genlController = 0x10 // GENL_ID_CTRL
	name, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: ctrlAttrName, Data: []byte("IPVS\x00")}})
	if err != nil {
		return 0, err
	}
	answers, err := c.Execute(genl(genlController, ctrlGetFamily, 0, name))
	if errors.Is(err, unix.ENOENT) {
		return 0, errNoIPVS
	}
	if err != nil {
		return 0, fmt.Errorf("look for IPVS: %w", err)
	}
	for _, m := range answers {
		attrs, err := decoder(m, 4)
		if err != nil {
			return 0, err
		}
		for attrs.Next() {
			if attrs.Type() == ctrlAttrID {
				return attrs.Uint16(), nil
			}
		}
	}
	return 0, errNoIPVS
}

// virtualServer returns the attributes that name a virtual server to the kernel, and its
// address, of the family that it has; the zero address is that of a mark.
func virtualServer(m netlink.Message) (name []byte, addr netip.Addr, err error) {
	outer, err := decoder(m, 4)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	var named []netlink.Attribute
	var family uint16
	for outer.Next() {
		if outer.Type() != ipvsAttrService {
			continue
		}
		attrs, err := netlink.UnmarshalAttributes(outer.Bytes())
		if err != nil {
			return nil, netip.Addr{}, err
		}
		for _, a := range attrs {
			switch {
			case a.Type == 1 && len(a.Data) >= 2:
				family = binary.NativeEndian.Uint16(a.Data)
			case a.Type == ipvsServiceAddr && family == unix.AF_INET && len(a.Data) >= 4:
				addr, _ = netip.AddrFromSlice(a.Data[:4])
			case a.Type == ipvsServiceAddr:
				addr, _ = netip.AddrFromSlice(a.Data)
			}
			if a.Type <= ipvsServiceMax {
				named = append(named, netlink.Attribute{Type: a.Type, Data: a.Data})
			}
		}
	}
	service, err := netlink.MarshalAttributes(named)
	if err != nil {
		return nil, addr, err
	}
	name, err = netlink.MarshalAttributes([]netlink.Attribute{{Type: netlink.Nested | ipvsAttrService, Data: service}})
	return name, addr, err
}

// decoder reads the attributes behind a header of so many bytes.
func decoder(m netlink.Message, header int) (*netlink.AttributeDecoder, error) {
	if len(m.Data) < header {
		return nil, fmt.Errorf("an answer of %d bytes is too short", len(m.Data))
	}
	return netlink.NewAttributeDecoder(m.Data[header:])
}

func deleteLink(index int) error {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	info := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(info[4:], uint32(index))
	_, err = c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_DELLINK, Flags: netlink.Request | netlink.Acknowledge}, Data: info,
	})
	return err
}

// ipvsSets are the sets of ipvs mode; those of IPv6 have KUBE-6- in the place of KUBE-.
func ipvsSets() []string {
	return []string{
		"LOOP-BACK", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL", "LOAD-BALANCER", "LOAD-BALANCER-LOCAL",
		"LOAD-BALANCER-FW", "LOAD-BALANCER-SOURCE-IP", "LOAD-BALANCER-SOURCE-CIDR", "NODE-PORT-TCP", "NODE-PORT-UDP",
		"NODE-PORT-LOCAL-TCP", "NODE-PORT-LOCAL-UDP", "NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH",
		"HEALTH-CHECK-NODE-PORT", "IPVS-IPS",
	}
}

// destroySets destroys the sets that are there.
func destroySets(ctx context.Context) error {
	// Numbers of linux/netfilter/ipset/ip_set.h. Names end after 31 bytes.
	const protocolVersion, destroy, attrProtocol, attrName, maxName = 6, 3, 1, 2, 31
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("connect to ipset over netlink: %w", err)
	}
	defer func() { _ = c.Close() }()
	var errs []error
	for _, prefix := range []string{"KUBE-", "KUBE-6-"} {
		for _, set := range ipvsSets() {
			name := prefix + set
			name = name[:min(len(name), maxName)]
			attrs, err := netlink.MarshalAttributes([]netlink.Attribute{
				{Type: attrProtocol, Data: []byte{protocolVersion}}, {Type: attrName, Data: append([]byte(name), 0)},
			})
			if err == nil && ctx.Err() == nil {
				_, err = c.Execute(netlink.Message{
					Header: netlink.Header{Type: unix.NFNL_SUBSYS_IPSET<<8 | destroy, Flags: netlink.Request | netlink.Acknowledge},
					Data:   append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, attrs...),
				})
			}
			if errors.Is(err, unix.EINVAL) {
				return nil // a kernel without sets
			}
			if err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("destroy the set %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}
