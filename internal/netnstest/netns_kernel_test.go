//go:build linux

package netnstest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
)

func TestKernelPacketsCrossALink(t *testing.T) {
	a, b := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t,
		netnstest.End{NS: a, Name: "eth0", Addrs: []string{"192.0.2.1/24", "2001:db8::1/64"}},
		netnstest.End{NS: b, Name: "eth0", Addrs: []string{"192.0.2.2/24", "2001:db8::2/64"}})
	for _, addr := range []string{"192.0.2.2:80", "[2001:db8::2]:80"} {
		t.Run(addr, func(t *testing.T) {
			l, err := b.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go answer(l)
			conn, err := a.Dial("tcp", addr, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			got, err := io.ReadAll(conn)
			if err != nil || string(got) != "hello" {
				t.Errorf("read %q, %v; want hello", got, err)
			}
		})
	}
}

func answer(l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	_, _ = c.Write([]byte("hello"))
	_ = c.Close()
}

// An address that was given is the namespace's own at once, however much else happens to
// the host's namespaces: a port that nobody listens at refuses.
func TestKernelAddressesAreInUseAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 2 {
		wg.Go(func() {
			for range 4 {
				t.Run("others", func(t *testing.T) {
					a, b := netnstest.New(t), netnstest.New(t)
					netnstest.Veth(t, netnstest.End{NS: a, Name: "eth0", Addrs: []string{"192.0.2.1/24"}}, netnstest.End{NS: b, Name: "eth0"})
				})
			}
		})
	}
	for range 4 {
		ns := netnstest.New(t)
		netnstest.Address(t, ns, "lo", "192.0.2.7/32", "2001:db8::7/128")
		for _, addr := range []string{"192.0.2.7:80", "[2001:db8::7]:80"} {
			if conn, err := ns.Dial("tcp", addr, 30*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("connect to %s: %v, %v, want refused", addr, conn, err)
			}
		}
	}
}

func TestKernelThreadOfTheTestStaysWhereItWas(t *testing.T) {
	before, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	ns := netnstest.New(t)
	var inside string
	err = ns.Do(func() error {
		var err error
		inside, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if inside == before {
		t.Errorf("Do ran in %s, the namespace of the test", inside)
	}
	for range 50 {
		after, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil || after != before {
			t.Fatalf("namespace of a thread of the test = %s, %v; want %s", after, err, before)
		}
	}
}
