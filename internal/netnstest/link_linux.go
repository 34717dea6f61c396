package netnstest

import (
	"net"
	"strings"
	"testing"
	"time"
)

// End is one end of a link: an interface in a namespace.
type End struct {
	NS   *NS
	Name string
	// Addrs are the addresses of the interface with their prefix lengths.
	Addrs []string
	// Bridge is the name of a bridge of NS that the interface joins; empty means
	// none.
	Bridge string
}

// Veth joins two namespaces by a pair of virtual Ethernet interfaces, which are
// up and usable when it returns.
func Veth(tb testing.TB, a, b End) {
	tb.Helper()
	a.NS.IP(tb, "link", "add", a.Name, "type", "veth", "peer", "name", b.Name, "netns", b.NS.Path())
	a.up(tb)
	b.up(tb)
	a.settle(tb)
	b.settle(tb)
	a.address(tb)
	b.address(tb)
}

// Bridge makes a bridge with addresses in a namespace. Name and Addrs of end
// are used.
func Bridge(tb testing.TB, end End) {
	tb.Helper()
	end.NS.IP(tb, "link", "add", end.Name, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
	end.up(tb)
	end.address(tb)
}

func (e End) up(tb testing.TB) {
	tb.Helper()
	if e.Bridge != "" {
		e.NS.IP(tb, "link", "set", e.Name, "master", e.Bridge)
	}
	e.NS.IP(tb, "link", "set", e.Name, "up")
}

// settle waits until the kernel has noticed that the link has a carrier, which
// it does within about a second: before, a bridge does not forward to a port.
func (e End) settle(tb testing.TB) {
	tb.Helper()
	waitRunning(tb, e.NS, e.Name)
	if e.Bridge != "" {
		waitRunning(tb, e.NS, e.Bridge)
	}
}

func waitRunning(tb testing.TB, ns *NS, name string) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		var iface *net.Interface
		err := ns.Do(func() error {
			var err error
			iface, err = net.InterfaceByName(name)
			return err
		})
		if err != nil {
			tb.Fatalf("interface %s: %v", name, err)
		}
		if iface.Flags&net.FlagRunning != 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("interface %s is not running after a minute: flags %v", name, iface.Flags)
		}
	}
}

// address comes after both ends are up: an IPv6 address is usable at once only
// on a link that has a carrier.
func (e End) address(tb testing.TB) {
	tb.Helper()
	Address(tb, e.NS, e.Name, e.Addrs...)
}

// Address gives an interface of ns addresses with their prefix lengths, which are in use
// when it returns.
func Address(tb testing.TB, ns *NS, iface string, addrs ...string) {
	tb.Helper()
	for _, addr := range addrs {
		if !strings.Contains(addr, ":") {
			ns.IP(tb, "addr", "add", addr, "dev", iface)
			continue
		}
		// Without duplicate detection, which takes its time even where it is off.
		ns.IP(tb, "addr", "add", addr, "dev", iface, "nodad")
		waitLocal(tb, ns, addr)
	}
}

// waitLocal waits until the kernel takes an IPv6 address for its own. The route that says
// so comes from a work queue, which other namespaces that come and go keep waiting for
// seconds; before, there is no route to the address, or a wrong one.
func waitLocal(tb testing.TB, ns *NS, addr string) {
	tb.Helper()
	addr, _, _ = strings.Cut(addr, "/")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		out, err := ns.Run("ip", "-6", "route", "get", addr)
		if err == nil && strings.HasPrefix(out, "local ") {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s is no address of the namespace after a minute: %s, %v", addr, out, err)
		}
	}
}
