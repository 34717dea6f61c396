package proxier

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// parseAddr parses an IP address as the API server of old accepted it: an octet of
// an IPv4 address may have leading zeros, which count as decimal. Objects stored
// that way still exist (https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/4858-ip-cidr-validation).
// An IPv4-mapped IPv6 address comes back as IPv4; a zone is refused.
func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		a, err = netip.ParseAddr(dropLeadingZeros(s))
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", s)
	}
	if a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q has a zone", s)
	}
	return a.Unmap(), nil
}

// parsePrefix parses a CIDR as leniently as parseAddr, blanks around it allowed.
// Host bits are cleared.
func parsePrefix(s string) (netip.Prefix, error) {
	addr, length, ok := strings.Cut(strings.TrimSpace(s), "/")
	bits, err := strconv.ParseUint(length, 10, 8)
	if !ok || err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR", s)
	}
	a, err := netip.ParseAddr(dropLeadingZeros(addr))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR", s)
	}
	n := int(bits)
	if a.Is4In6() {
		a, n = a.Unmap(), n-96
	}
	p, err := a.Prefix(n)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR", s)
	}
	return p, nil
}

// dropLeadingZeros rewrites dotted decimals without leading zeros and returns
// anything else as it is.
func dropLeadingZeros(s string) string {
	if strings.Contains(s, ":") {
		return s
	}
	octets := strings.Split(s, ".")
	for i, o := range octets {
		if t := strings.TrimLeft(o, "0"); t != "" {
			octets[i] = t
		} else if o != "" {
			octets[i] = "0"
		}
	}
	return strings.Join(octets, ".")
}

// checkFrontend refuses addresses at which no Service can answer.
func checkFrontend(a netip.Addr) error {
	switch {
	case a.IsUnspecified():
		return fmt.Errorf("%s is the unspecified address", a)
	case a.IsLoopback():
		return fmt.Errorf("%s is a loopback address", a)
	case a.IsMulticast():
		return fmt.Errorf("%s is a multicast address", a)
	}
	return nil
}

// checkRoutable refuses, beside those, link-local addresses: the API server
// admits neither an endpoint nor an external IP with one
// (https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1).
func checkRoutable(a netip.Addr) error {
	if a.IsLinkLocalUnicast() {
		return fmt.Errorf("%s is a link-local address", a)
	}
	return checkFrontend(a)
}
