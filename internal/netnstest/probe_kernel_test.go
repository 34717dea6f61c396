//go:build linux

package netnstest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
)

// complaints is a testing.TB that collects errors.
type complaints struct {
	testing.TB
	lines []string
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

func TestKernelProbesTellLosses(t *testing.T) {
	a, b := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t,
		netnstest.End{NS: a, Name: "eth0", Addrs: []string{"192.0.2.1/24"}},
		netnstest.End{NS: b, Name: "eth0", Addrs: []string{"192.0.2.2/24"}})
	l, err := b.Listen("tcp", "192.0.2.2:80")
	if err != nil {
		t.Fatal(err)
	}
	u, err := b.ListenPacket("udp", "192.0.2.2:80") // which never answers
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer u.Close()
	defer l.Close()
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "hello")
			_ = c.Close()
		}
	})
	const served, refused = "192.0.2.2:80", "192.0.2.2:81"
	tests := map[string]struct {
		virtual, direct string
		want            string
	}{
		"served":            {virtual: served, direct: served},
		"refused":           {virtual: refused, direct: served, want: "were lost"},
		"the machine fails": {virtual: refused, direct: refused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &complaints{TB: t}
			stop := netnstest.Probes{From: a, Networks: []string{"tcp"}, Virtual: tt.virtual, Direct: tt.direct}.Start(c)
			time.Sleep(500 * time.Millisecond) //nolint:forbidigo // kernel time
			stop()
			got := strings.Join(c.lines, "; ")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("it complains %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("a datagram without an answer", func(t *testing.T) {
		c := &complaints{TB: t}
		netnstest.Probes{From: a, Networks: []string{"udp"}, Virtual: served, Direct: served, Patience: time.Second}.Start(c)()
		if len(c.lines) > 0 {
			t.Errorf("it complains %q, want nothing: the direct one has no answer, either", c.lines)
		}
	})
}

// The first packet of each second connection is dropped, and sent again after a second. Where
// the machine stands still for as long that tells nothing, so there are several tries.
func TestKernelProbesTellLostPackets(t *testing.T) {
	netnstest.NeedCommand(t, "nft")
	a, b := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t,
		netnstest.End{NS: a, Name: "eth0", Addrs: []string{"192.0.2.1/24"}},
		netnstest.End{NS: b, Name: "eth0", Addrs: []string{"192.0.2.2/24"}})
	if out, err := b.Run("nft", "add table ip t; add chain ip t in { type filter hook input priority 0; }; "+
		"add rule ip t in tcp dport 80 tcp flags syn numgen inc mod 2 == 0 drop"); err != nil {
		t.Fatal(err, out)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, addr := range []string{"192.0.2.2:80", "192.0.2.2:82"} {
		l, err := b.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(c, "hello")
				_ = c.Close()
			}
		})
	}
	c := &complaints{TB: t}
	for begin := time.Now(); len(c.lines) == 0; {
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("it does not complain")
		}
		netnstest.Probes{From: a, Networks: []string{"tcp"}, Virtual: "192.0.2.2:80", Direct: "192.0.2.2:82"}.Start(c)()
	}
	if !strings.Contains(c.lines[0], "packets were sent again") {
		t.Errorf("it complains %q", c.lines)
	}
}
