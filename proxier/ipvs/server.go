package ipvs

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// serverKey names a virtual server as the kernel does: by protocol, address and port, or
// by the mark of packets, whatever their protocol.
type serverKey struct {
	family proxier.Family
	proto  proxier.Protocol // 0 with a mark
	at     netip.AddrPort   // zero with a mark
	mark   uint32
}

// String returns "TCP 10.96.0.1:80", or "mark 0x4e4b0001 IPv4".
func (k serverKey) String() string {
	if k.mark != 0 {
		return fmt.Sprintf("mark %#x %s", k.mark, k.family)
	}
	return fmt.Sprintf("%s %s", k.proto, k.at)
}

func (k serverKey) compare(o serverKey) int {
	return cmp.Or(cmp.Compare(k.family, o.family), k.at.Compare(o.at), cmp.Compare(k.proto, o.proto), cmp.Compare(k.mark, o.mark))
}

// settings are how a virtual server works.
type settings struct {
	scheduler string
	flags     uint32
	// timeout is for how many seconds a client keeps its endpoint, with flagPersistent.
	timeout uint32
}

// Flags of a virtual server: IP_VS_SVC_F_… of linux/ip_vs.h. The last two mean something
// to some schedulers: to try another server when the one that the hash names is not to be
// had, and to hash the source port, too.
const (
	flagPersistent = 0x1
	flagFallback   = 0x8
	flagHashPort   = 0x10
	// ourFlags are those that are compared: the kernel adds one of its own.
	ourFlags = flagPersistent | flagFallback | flagHashPort | 0x4 | 0x20
)

// target is a real server: an endpoint.
type target struct {
	at     netip.AddrPort
	weight uint16
}

// virtual is a virtual server as it is to be.
type virtual struct {
	settings
	targets []target // sorted by address, each once
	// datagrams says that connections are flows of UDP, which nobody ends.
	datagrams bool
}

// drains reports whether a removed endpoint keeps its connections for a while.
func (v *virtual) drains() bool { return drains(v.scheduler) }

func (v *virtual) equal(o *virtual) bool {
	if v == nil || o == nil {
		return v == o
	}
	if v.settings != o.settings || v.datagrams != o.datagrams || len(v.targets) != len(o.targets) {
		return false
	}
	for i := range v.targets {
		if v.targets[i] != o.targets[i] {
			return false
		}
	}
	return true
}

// opKind is what to do with a virtual server or one of its real servers.
type opKind uint8

const (
	addServer opKind = iota + 1
	setServer
	deleteServer
	addTarget
	setTarget
	deleteTarget
)

func (k opKind) String() string {
	switch k {
	case addServer:
		return "add virtual server"
	case setServer:
		return "change virtual server"
	case deleteServer:
		return "delete virtual server"
	case addTarget:
		return "add real server"
	case setTarget:
		return "change real server"
	case deleteTarget:
		return "delete real server"
	}
	return "no operation"
}

// op is one message to IPVS.
type op struct {
	kind   opKind
	server serverKey
	settings
	target target
	// datagrams is that of the virtual server. The kernel is not told.
	datagrams bool
}

// String says what is tried on what.
func (o op) String() string {
	switch o.kind {
	case addTarget, setTarget:
		return fmt.Sprintf("%s %s weight %d of %s", o.kind, o.target.at, o.target.weight, o.server)
	case deleteTarget:
		return fmt.Sprintf("%s %s of %s", o.kind, o.target.at, o.server)
	case addServer, setServer:
		return fmt.Sprintf("%s %s scheduler %s flags %#x timeout %d", o.kind, o.server, o.scheduler, o.flags, o.timeout)
	}
	return fmt.Sprintf("%s %s", o.kind, o.server)
}

// foundServer is a virtual server that the kernel has.
type foundServer struct {
	key serverKey
	settings
}

// foundTarget is a real server that the kernel has.
type foundTarget struct {
	target
	// connections are those that it has, whatever their state.
	connections uint64
	// masquerades says that its packets are rewritten, as the Backend wants it.
	masquerades bool
}
