package nftables

import (
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// manyServices returns n ServicePorts with a cluster IP and k endpoints each.
func manyServices(n, k int) []*proxier.ServicePort {
	out := make([]*proxier.ServicePort, n)
	for i := range out {
		vip := netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})
		p := service(fmt.Sprintf("service-%05d", i), proxier.TCP, netip.AddrPortFrom(vip, 80).String())
		for j := range k {
			ep := i*k + j
			addr := netip.AddrFrom4([4]byte{10, byte(128 + ep>>16), byte(ep >> 8), byte(ep)})
			p.Cluster = append(p.Cluster, proxier.Endpoint{Addr: netip.AddrPortFrom(addr, 8080)})
		}
		p.HasEndpoints = k > 0
		out[i] = p
	}
	return out
}
