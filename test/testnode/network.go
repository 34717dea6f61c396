package testnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	goruntime "runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Addresses inside a node. They mean nothing outside its network namespace, so
// all nodes use the same ones.
const (
	// NodeIPv4 and NodeIPv6 are the node's own addresses.
	NodeIPv4 = "10.20.0.2"
	NodeIPv6 = "fd00:20::2"
	// PodIPv4Range and PodIPv6Range are where pods get their addresses.
	PodIPv4Range = "10.244.1.0/24"
	PodIPv6Range = "fd00:244:1::/64"
	// ServiceIPv4Range and ServiceIPv6Range are set aside for virtual IPs.
	ServiceIPv4Range = "10.96.0.0/16"
	ServiceIPv6Range = "fd00:96::/112"
)

// dialLimit is how long a connection inside the node may take.
const dialLimit = 500 * time.Millisecond

// hasIPv6 reports whether this kernel speaks IPv6; without it nodes are IPv4 only.
func hasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}

// makeNamespace makes the network namespace, with a loopback device. It is mounted
// in the node's folder: ip-netns(8) would leave a mount at /run/netns behind, and
// its exec hides the control groups.
func (l layout) makeNamespace(ctx context.Context) error {
	if err := os.WriteFile(l.namespace(), nil, 0o600); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	if err := run(ctx, "unshare", "--net="+l.namespace(), "ip", "link", "set", "lo", "up"); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	return nil
}

// leadNowhere makes an uplink that leads nowhere: the kernel looks for a route
// before it rewrites a virtual IP, so a node needs a default route even when
// nobody is behind it.
func leadNowhere(ctx context.Context, n *Node) error {
	commands := [][]string{
		{"link", "add", "eth0", "type", "veth", "peer", "name", "uplink"},
		{"address", "add", NodeIPv4 + "/24", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"link", "set", "uplink", "up"},
		{"route", "add", "default", "dev", "eth0"},
	}
	if hasIPv6() {
		commands = append(commands,
			[]string{"address", "add", NodeIPv6 + "/64", "dev", "eth0", "nodad"},
			[]string{"-6", "route", "add", "default", "dev", "eth0"})
	}
	return n.IP(ctx, commands...)
}

// IP runs commands of ip(8) in the node's network namespace, one after the other.
func (n *Node) IP(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if err := run(ctx, "nsenter", append([]string{"--net=" + n.lay.namespace(), "ip"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Dial connects from inside the node's network namespace, the way a process on
// the node would. The address is a literal one: names are not resolved there.
// It fits the DialContext fields of net/http. A connection that takes longer than
// half a second fails: on the node, that is one that leads nowhere.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.DialWithin(ctx, dialLimit, network, address)
}

// DialWithin is Dial with another limit, for callers to whom a slow machine is no failure.
func (n *Node) DialWithin(ctx context.Context, limit time.Duration, network, address string) (net.Conn, error) {
	var (
		conn net.Conn
		dial = func() error {
			var err error
			conn, err = (&net.Dialer{Timeout: limit}).DialContext(ctx, network, address)
			return err
		}
	)
	if err := inNamespace(n.lay.namespace(), dial); err != nil {
		return nil, err
	}
	return conn, nil
}

// Listen listens in the node's network namespace. The caller closes the listener.
func (n *Node) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var (
		listener net.Listener
		listen   = func() error {
			var err error
			listener, err = new(net.ListenConfig).Listen(ctx, network, address)
			return err
		}
	)
	if err := inNamespace(n.lay.namespace(), listen); err != nil {
		return nil, err
	}
	return listener, nil
}

// inNamespace calls f on a thread that is in the network namespace at path. A
// socket stays in the namespace it was made in, so that the connection can be
// used from any thread later.
func inNamespace(path string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// A thread that could not return to its namespace is never unlocked, and
		// the Go runtime ends it with this goroutine.
		goruntime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- fmt.Errorf("remember network namespace: %w", err)
			return
		}
		defer home.Close()
		target, err := os.Open(path)
		if err != nil {
			done <- fmt.Errorf("open network namespace: %w", err)
			return
		}
		defer target.Close()
		if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", path, err)
			return
		}
		err = f()
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			done <- errors.Join(err, fmt.Errorf("leave network namespace %s: %w", path, back))
			return
		}
		goruntime.UnlockOSThread()
		done <- err
	}()
	return <-done
}
