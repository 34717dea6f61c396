package sysctl

import (
	"strconv"
	"time"
)

// Conntrack is what to make of connection tracking. Zero fields change nothing.
type Conntrack struct {
	// MaxPerCore is how many connections to track per CPU, and Min the least in all.
	// MaxPerCore 0 leaves the size of the table as it is.
	MaxPerCore int
	Min        int
	// TCPEstablished and TCPCloseWait are after how long a silent connection in these
	// states is forgotten; UDP and UDPStream the same for UDP. Whole seconds count.
	TCPEstablished time.Duration
	TCPCloseWait   time.Duration
	UDP            time.Duration
	UDPStream      time.Duration
	// TCPBeLiberal makes the kernel take packets outside of the window for part of
	// their connection, instead of passing them on untranslated.
	TCPBeLiberal bool
}

// MaxTable is the largest table that MaxPerCore leads to: kube-proxy, too, asks for
// no more on machines with many CPUs.
const MaxTable = 1 << 20

// Setting is one parameter and its value.
type Setting struct {
	// Path is relative to the root of the file system, such as
	// "proc/sys/net/netfilter/nf_conntrack_max".
	Path  string
	Value int
	// AtLeast says that a higher value is right, too.
	AtLeast bool
}

// String returns "path=value".
func (s Setting) String() string { return s.Path + "=" + strconv.Itoa(s.Value) }

const netfilter = "proc/sys/net/netfilter/"

// Settings returns the parameters for a machine with so many CPUs, in the order in
// which to write them.
func (c Conntrack) Settings(cpus int) []Setting {
	var out []Setting
	if n := c.table(cpus); n > 0 {
		out = append(out,
			Setting{Path: netfilter + "nf_conntrack_max", Value: n, AtLeast: true},
			// Four connections to a bucket, as the kernel sizes it by default
			// (Documentation/networking/nf_conntrack-sysctl.rst).
			Setting{Path: "sys/module/nf_conntrack/parameters/hashsize", Value: n / 4, AtLeast: true})
	}
	seconds := func(name string, d time.Duration) {
		if d >= time.Second {
			out = append(out, Setting{Path: netfilter + name, Value: int(d / time.Second)})
		}
	}
	seconds("nf_conntrack_tcp_timeout_established", c.TCPEstablished)
	seconds("nf_conntrack_tcp_timeout_close_wait", c.TCPCloseWait)
	seconds("nf_conntrack_udp_timeout", c.UDP)
	seconds("nf_conntrack_udp_timeout_stream", c.UDPStream)
	if c.TCPBeLiberal {
		out = append(out, Setting{Path: netfilter + "nf_conntrack_tcp_be_liberal", Value: 1})
	}
	return out
}

func (c Conntrack) table(cpus int) int {
	if c.MaxPerCore <= 0 {
		return 0
	}
	return min(max(c.MaxPerCore*cpus, c.Min), max(MaxTable, c.Min))
}
