package iptables

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/proxier/internal/netns"
)

// host is what the Backend wants of the kernel beside iptables.
type host interface {
	// addrs returns the addresses of all interfaces, sorted.
	addrs() ([]netip.Addr, error)
	// isSet reports whether a parameter below /proc/sys/net is there and not 0.
	isSet(name string) (bool, error)
	// set sets a parameter below /proc/sys/net to 1, if it is not.
	set(name string) error
	// ensureCounter makes a counter of nfnetlink_acct. It returns errNoCounters where
	// the kernel has none.
	ensureCounter(name string) error
	// counter returns how many packets were counted.
	counter(name string) (uint64, error)
}

// kernel is the host in a network namespace.
type kernel struct {
	netns string // empty means that of the process
}

// Parameters below /proc/sys/net
// (https://docs.kernel.org/networking/nf_conntrack-sysctl.html and ip-sysctl.html).
const (
	liberalParameter       = "netfilter/nf_conntrack_tcp_be_liberal"
	routeLocalnetParameter = "ipv4/conf/all/route_localnet"
)

func (k kernel) addrs() ([]netip.Addr, error) {
	var out []netip.Addr
	err := netns.Do(k.netns, func() error {
		all, err := net.InterfaceAddrs()
		if err != nil {
			return fmt.Errorf("list the addresses of the node: %w", err)
		}
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, p.Addr().Unmap().WithZone(""))
			}
		}
		return nil
	})
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), err
}

func (k kernel) isSet(name string) (bool, error) {
	var data []byte
	err := netns.Do(k.netns, func() error {
		var err error
		data, err = os.ReadFile("/proc/sys/net/" + name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read a kernel parameter: %w", err)
	}
	return strings.TrimSpace(string(data)) != "0", nil
}

func (k kernel) set(name string) error {
	if is, err := k.isSet(name); is && err == nil {
		return nil
	}
	err := netns.Do(k.netns, func() error { return os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0o644) })
	if err != nil {
		return fmt.Errorf("set a kernel parameter to 1: %w", err)
	}
	return nil
}
