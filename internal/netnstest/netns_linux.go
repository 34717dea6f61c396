package netnstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/osthread"
)

// NS is a network namespace. It lives until the test that made it ends.
type NS struct {
	file *os.File
}

// New makes a network namespace whose loopback is up. It skips the test when
// namespaces or the ip command are not to be had, and fails it instead when
// REQUIRE_KERNEL=1 is set.
func New(tb testing.TB) *NS {
	tb.Helper()
	NeedCommand(tb, "ip")
	ns := &NS{}
	if err := osthread.Do(ns.create); err != nil {
		unavailable(tb, err)
	}
	tb.Cleanup(func() { _ = ns.file.Close() })
	ns.IP(tb, "link", "set", "lo", "up")
	// IPv6 addresses are usable at once, and a bridge port that returns packets to
	// their sender makes no address look like a duplicate.
	ns.Sysctl(tb, "ipv6/conf/default/accept_dad", "0")
	return ns
}

// NeedCommand skips the test when a command is not to be had, and fails it instead
// when REQUIRE_KERNEL=1 is set.
func NeedCommand(tb testing.TB, name string) {
	tb.Helper()
	if _, err := exec.LookPath(name); err != nil {
		unavailable(tb, err)
	}
}

// create moves the calling thread into a new namespace and keeps its file. The
// thread must end afterwards.
func (ns *NS) create() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare the network namespace: %w", err)
	}
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("open the new network namespace: %w", err)
	}
	ns.file = f
	return nil
}

// unavailable skips the test only where privilege or the feature is missing.
func unavailable(tb testing.TB, err error) {
	tb.Helper()
	missing := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, exec.ErrNotFound)
	if !missing || os.Getenv("REQUIRE_KERNEL") == "1" {
		tb.Fatalf("this host cannot run the test: %v", err)
	}
	tb.Skipf("this host cannot run the test: %v (REQUIRE_KERNEL=1 makes this a failure)", err)
}

// Path names the namespace for this process and its children; it can be given
// to open(2), setns(2) helpers and nsenter --net.
func (ns *NS) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.file.Fd())
}

// Do runs f on a thread inside the namespace and returns its error. Goroutines
// that f starts run outside; sockets that f opens stay inside for good.
func (ns *NS) Do(f func() error) error {
	return osthread.Do(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace: %w", err)
		}
		return f()
	})
}

// Run runs a command inside the namespace and returns what it printed on both
// streams.
func (ns *NS) Run(name string, args ...string) (string, error) {
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// IP runs the ip command inside the namespace and fails the test on an error.
func (ns *NS) IP(tb testing.TB, args ...string) {
	tb.Helper()
	if _, err := ns.Run("ip", args...); err != nil {
		tb.Fatal(err)
	}
}

// Sysctl sets a parameter below /proc/sys/net of the namespace, for example
// "ipv4/ip_forward", and fails the test on an error.
func (ns *NS) Sysctl(tb testing.TB, name, value string) {
	tb.Helper()
	err := ns.Do(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644) })
	if err != nil {
		tb.Fatalf("set sysctl net/%s: %v", name, err)
	}
}

// Forward makes the namespace route packets of both families.
func (ns *NS) Forward(tb testing.TB) {
	tb.Helper()
	ns.Sysctl(tb, "ipv4/ip_forward", "1")
	ns.Sysctl(tb, "ipv6/conf/all/forwarding", "1")
}

// Dial opens a connection from inside the namespace. The address must be
// literal: names are not resolved inside.
func (ns *NS) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	var conn net.Conn
	err := ns.Do(func() error {
		var err error
		conn, err = net.DialTimeout(network, address, timeout)
		return err
	})
	return conn, err
}

// Listen opens a TCP listener inside the namespace. The test closes it.
func (ns *NS) Listen(network, address string) (net.Listener, error) {
	var l net.Listener
	err := ns.Do(func() error {
		var err error
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// ListenPacket opens a UDP socket inside the namespace. The test closes it.
func (ns *NS) ListenPacket(network, address string) (net.PacketConn, error) {
	var c net.PacketConn
	err := ns.Do(func() error {
		var err error
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}
