package node

import (
	"net"
	"net/netip"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostIPs returns the addresses of the node, at most one of each family: those the
// kernel would send from to reach a distant host, else the first that is usable
// beyond the machine. The addresses asked about are for documentation (RFC 5737,
// RFC 3849); nothing is sent to them.
func hostIPs() []string {
	var ips []string
	for _, probe := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(probe))
		c, err := net.DialUDP("udp", nil, to)
		if err != nil {
			continue
		}
		if from, ok := c.LocalAddr().(*net.UDPAddr); ok && usable(from.AddrPort().Addr()) {
			ips = append(ips, from.AddrPort().Addr().Unmap().String())
		}
		_ = c.Close() // nothing was sent
	}
	if len(ips) > 0 {
		return ips
	}
	addrs, _ := net.InterfaceAddrs() // a host without addresses has none to offer
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && usable(prefix.Addr()) {
			return []string{prefix.Addr().Unmap().String()}
		}
	}
	return nil
}

// usable reports whether others can reach the address.
func usable(a netip.Addr) bool { return a.IsGlobalUnicast() && !a.IsLoopback() }

// hostMemory returns the size of the node's memory in bytes, 0 if the kernel does
// not say.
func hostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) //nolint:gosec // far below 1<<63
}

// throttleCounters are directories that tell containers of the temperature of the
// host, hidden from them as the container runtimes do.
func throttleCounters() []string {
	paths, _ := filepath.Glob("/sys/devices/system/cpu/cpu*/thermal_throttle") // the pattern is valid
	return paths
}
