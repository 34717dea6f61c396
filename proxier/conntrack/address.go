package conntrack

import (
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// localAddrs returns the addresses of the namespace: node ports answer at these.
func (k *kernel) localAddrs(ctx context.Context, f proxier.Family) (map[netip.Addr]bool, error) {
	c, err := dialIn(k.path, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := make([]byte, unix.SizeofIfAddrmsg)
	request[0] = familyNumber(f)
	answers, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETADDR, Flags: netlink.Request | netlink.Dump},
		Data:   request,
	})
	if err != nil {
		return nil, err
	}
	out := make(map[netip.Addr]bool)
	for _, m := range answers {
		if len(m.Data) < unix.SizeofIfAddrmsg {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(m.Data[unix.SizeofIfAddrmsg:])
		if err != nil {
			return nil, err
		}
		ad.ByteOrder = binary.NativeEndian
		var own []byte
		for ad.Next() {
			// With both, as on an interface from point to point, IFA_ADDRESS is the
			// peer's (linux/if_addr.h).
			if t := ad.Type(); t == unix.IFA_LOCAL || t == unix.IFA_ADDRESS && own == nil {
				own = ad.Bytes()
			}
		}
		if err := ad.Err(); err != nil {
			return nil, err
		}
		if a, ok := netip.AddrFromSlice(own); ok {
			out[a] = true
		}
	}
	return out, nil
}
