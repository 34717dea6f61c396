//go:build linux

package netnstest_test

import (
	"fmt"
	"strings"
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
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "hello")
			_ = c.Close()
		}
	}()
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
}
