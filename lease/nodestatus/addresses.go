package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Host tells the addresses of a machine. ThisHost is one.
type Host interface {
	// Addrs returns the addresses of all interfaces.
	Addrs() ([]netip.Addr, error)
	// Lookup returns what DNS knows of a name.
	Lookup(ctx context.Context, name string) ([]netip.Addr, error)
	// Source returns the address from which the machine talks to the world, by IPv6 or
	// IPv4.
	Source(ipv6 bool) (netip.Addr, error)
}

// ParseNodeIPs reads addresses as the flag --node-ip has them: none, one, or two of
// different families, with a comma. 0.0.0.0 and :: stand for the family whose address
// is to be found.
func ParseNodeIPs(s string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for part := range fields(s) {
		addr, err := netip.ParseAddr(part)
		if err != nil {
			return nil, fmt.Errorf("node IP %q is no IP address", part)
		}
		addrs = append(addrs, addr.Unmap())
	}
	switch {
	case len(addrs) > 2:
		return nil, fmt.Errorf("%d node IPs in %q, want one, or one of each family", len(addrs), s)
	case len(addrs) == 2 && addrs[0].Is4() == addrs[1].Is4():
		return nil, fmt.Errorf("node IPs %s and %s are of one family, want one of each", addrs[0], addrs[1])
	case len(addrs) == 2 && (addrs[0].IsUnspecified() || addrs[1].IsUnspecified()):
		return nil, fmt.Errorf("node IPs %q: with two of them both have to be addresses of this machine", s)
	}
	return addrs, nil
}

// AddressRules say which addresses a node reports.
type AddressRules struct {
	// Name is the name of the node, which DNS may know.
	Name string
	// Hostname is reported as it is; empty: Name. If it is an IP address, it is that of
	// the node, too.
	Hostname string
	// NodeIPs are the addresses that are wanted; see ParseNodeIPs.
	NodeIPs []netip.Addr
	// CloudProvider says that a cloud controller sets the addresses. Those of these rules
	// are Provisional then; see Facts.
	CloudProvider bool
}

// Validate says which of the node IPs can never be those of a node. Whether they are of
// this machine is another matter, and may change: Addresses looks at that each time.
func (r AddressRules) Validate() error {
	var errs []error
	for _, ip := range r.NodeIPs {
		errs = append(errs, checkKind(ip))
	}
	return errors.Join(errs...)
}

// Addresses returns the addresses to be reported: the node IPs, else the hostname if it
// is an address, else what DNS has for the name and the machine has, else the one from
// which the machine talks to the world. Without node IPs a cloud controller is left to
// find the address.
func (r AddressRules) Addresses(ctx context.Context, host Host) ([]corev1.NodeAddress, error) {
	for _, ip := range r.NodeIPs {
		if err := r.check(ip, host); err != nil {
			return nil, err
		}
	}
	if r.CloudProvider && len(r.NodeIPs) == 0 {
		return []corev1.NodeAddress{r.hostname()}, nil
	}
	ips := r.specified()
	if len(ips) == 0 {
		ip, err := r.find(ctx, host)
		if err != nil {
			return nil, err
		}
		ips = []netip.Addr{ip}
	}
	var addresses []corev1.NodeAddress
	for _, ip := range ips {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
	}
	return append(addresses, r.hostname()), nil
}

// Provided returns the value of the annotation for a cloud provider, empty without one.
func (r AddressRules) Provided() string {
	if !r.CloudProvider {
		return ""
	}
	var ips []string
	for _, ip := range r.specified() {
		ips = append(ips, ip.String())
	}
	return strings.Join(ips, ",")
}

func (r AddressRules) hostname() corev1.NodeAddress {
	name := r.Hostname
	if name == "" {
		name = r.Name
	}
	return corev1.NodeAddress{Type: corev1.NodeHostName, Address: name}
}

// specified returns the node IPs that are addresses.
func (r AddressRules) specified() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(r.NodeIPs), netip.Addr.IsUnspecified)
}

// checkKind says why an address cannot be that of any node.
func checkKind(ip netip.Addr) error {
	switch {
	case ip.IsLoopback():
		return fmt.Errorf("node IP %s is a loopback address, which other nodes cannot reach", ip)
	case ip.IsMulticast():
		return fmt.Errorf("node IP %s is a multicast address", ip)
	case ip.IsLinkLocalUnicast():
		return fmt.Errorf("node IP %s is a link-local address, which other networks cannot reach", ip)
	}
	return nil
}

// check says why an address cannot be this node's.
func (r AddressRules) check(ip netip.Addr, host Host) error {
	if ip.IsUnspecified() {
		return nil
	}
	if err := checkKind(ip); err != nil {
		return err
	}
	addrs, err := host.Addrs()
	if err != nil {
		return fmt.Errorf("list the addresses of this machine: %w", err)
	}
	if !slices.Contains(addrs, ip) {
		return fmt.Errorf("node IP %s is not an address of this machine", ip)
	}
	return nil
}

// find looks for the address of a node that was given none.
func (r AddressRules) find(ctx context.Context, host Host) (netip.Addr, error) {
	ipv6 := len(r.NodeIPs) > 0 && r.NodeIPs[0].Is6()
	if ip, err := netip.ParseAddr(r.hostname().Address); err == nil {
		return ip.Unmap(), nil
	}
	known, lookupErr := host.Lookup(ctx, r.Name)
	known = slices.DeleteFunc(known, func(ip netip.Addr) bool { return ip.IsUnspecified() || r.check(ip, host) != nil })
	if i := slices.IndexFunc(known, func(ip netip.Addr) bool { return ip.Is6() == ipv6 }); i >= 0 {
		return known[i], nil
	}
	if len(known) > 0 {
		return known[0], nil
	}
	ip, err := source(host, ipv6)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address of node %s, which --node-ip can name: %w", r.Name, errors.Join(lookupErr, err))
	}
	return ip, nil
}

// source returns the address from which a machine talks to the world, by the one family
// or, where that leads nowhere, by the other.
func source(host Host, ipv6 bool) (netip.Addr, error) {
	var errs []error
	for _, v6 := range []bool{ipv6, !ipv6} {
		ip, err := host.Source(v6)
		if err == nil {
			err = checkKind(ip)
		}
		if err == nil {
			return ip, nil
		}
		errs = append(errs, err)
	}
	return netip.Addr{}, errors.Join(errs...)
}

// ThisHost is the machine, or the network namespace, in which the program runs.
type ThisHost struct{}

// Addrs implements Host.
func (ThisHost) Addrs() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	return addrs, nil
}

// Lookup implements Host.
func (ThisHost) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// Source implements Host. It asks the kernel for a route to an address that is set apart
// for documentation (RFC 5737, RFC 3849); no packet is sent.
func (ThisHost) Source(ipv6 bool) (netip.Addr, error) {
	network, to := "udp4", "192.0.2.1:9"
	if ipv6 {
		network, to = "udp6", "[2001:db8::1]:9"
	}
	conn, err := net.Dial(network, to)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("this machine has no default route for %s: %w", map[bool]string{false: "IPv4", true: "IPv6"}[ipv6], err)
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	return local.Addr().Unmap(), nil
}
