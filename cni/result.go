package cni

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// Result is what the last plugin of an ADD returned, in the form of CNI 1.1.
type Result struct {
	// Interfaces are those that the plugins made, inside the container and outside.
	Interfaces []Interface
	// IPs are in the order of the plugins; see Addrs for the container's own.
	IPs    []IP
	Routes []Route
	DNS    types.DNS
	// Unclaimed are the names of capability arguments that no plugin takes: nothing
	// came of them.
	Unclaimed []string
	// Raw is the result in the version of the network, as plugins get it.
	Raw json.RawMessage
}

// Interface is a network interface.
type Interface struct {
	Name string
	// MAC is empty if the plugin named none.
	MAC string
	// MTU is 0 if the plugin named none.
	MTU int
	// Sandbox is the path of the network namespace, empty for the host's.
	Sandbox string
}

// IP is an address of an attachment.
type IP struct {
	Address netip.Prefix
	// Gateway is the zero Addr if there is none.
	Gateway netip.Addr
	// Interface is an index of Result.Interfaces, -1 if the plugin named none.
	Interface int
}

// Route is a route inside the container.
type Route struct {
	Dst netip.Prefix
	// Gateway is the zero Addr if there is none.
	Gateway netip.Addr
}

// Addrs returns the addresses of the container, in the order of the plugins: the
// first is the pod's IP, the first of the other family its second one. Addresses
// of interfaces outside are left out.
func (r *Result) Addrs() []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range r.IPs {
		if ip.Interface < 0 || r.Interfaces[ip.Interface].Sandbox != "" {
			addrs = append(addrs, ip.Address.Addr())
		}
	}
	return addrs
}

// refuseNulls finds what the CNI library's conversion between versions would
// stumble over.
func refuseNulls(raw json.RawMessage) error {
	var lists struct{ Interfaces, IPs, Routes []*json.RawMessage }
	if err := json.Unmarshal(raw, &lists); err != nil {
		return fmt.Errorf("%w: %w", ErrBadOutput, err)
	}
	for name, list := range map[string][]*json.RawMessage{"interfaces": lists.Interfaces, "ips": lists.IPs, "routes": lists.Routes} {
		if i := slices.Index(list, nil); i >= 0 {
			return fmt.Errorf("%w: %s[%d] is null", ErrBadOutput, name, i)
		}
	}
	return nil
}

// parseResult reads a result in any version.
func parseResult(raw json.RawMessage) (*Result, error) {
	if err := refuseNulls(raw); err != nil {
		return nil, err
	}
	any, err := create.CreateFromBytes(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOutput, err)
	}
	latest, err := types100.NewResultFromResult(any)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOutput, err)
	}
	r := &Result{DNS: latest.DNS, Raw: raw}
	for _, iface := range latest.Interfaces {
		r.Interfaces = append(r.Interfaces, Interface{Name: iface.Name, MAC: iface.Mac, MTU: iface.Mtu, Sandbox: iface.Sandbox})
	}
	if err := r.addIPs(latest.IPs); err != nil {
		return nil, err
	}
	return r, r.addRoutes(latest.Routes)
}

func (r *Result) addIPs(ips []*types100.IPConfig) error {
	for i, ip := range ips {
		own := IP{Address: prefix(ip.Address), Gateway: address(ip.Gateway), Interface: -1}
		if !own.Address.IsValid() {
			return fmt.Errorf("%w: ips[%d] has no address", ErrBadOutput, i)
		}
		if ip.Interface != nil {
			own.Interface = *ip.Interface
			if own.Interface < 0 || own.Interface >= len(r.Interfaces) {
				return fmt.Errorf("%w: ips[%d] is on interface %d of %d", ErrBadOutput, i, own.Interface, len(r.Interfaces))
			}
		}
		r.IPs = append(r.IPs, own)
	}
	return nil
}

func (r *Result) addRoutes(routes []*types.Route) error {
	for i, route := range routes {
		if !prefix(route.Dst).IsValid() {
			return fmt.Errorf("%w: routes[%d] has no destination", ErrBadOutput, i)
		}
		r.Routes = append(r.Routes, Route{Dst: prefix(route.Dst), Gateway: address(route.GW)})
	}
	return nil
}

// prefix converts, and is invalid where n is no network.
func prefix(n net.IPNet) netip.Prefix {
	ones, bits := n.Mask.Size()
	addr := address(n.IP)
	if bits == 0 || addr.BitLen() != bits {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, ones)
}

func address(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
