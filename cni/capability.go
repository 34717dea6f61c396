package cni

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Capabilities are arguments for plugins that declare to take them; the zero value
// passes none. Their form is that of
// https://github.com/containernetworking/cni/blob/main/CONVENTIONS.md.
type Capabilities struct {
	// PortMappings are ports of the host that lead to the container.
	PortMappings []PortMapping
	// Bandwidth limits the traffic of the container; nil is no limit.
	Bandwidth *Bandwidth
	// DNS is what the container's resolver should use; nil passes nothing.
	DNS *DNS
	// MAC is the hardware address of the interface; nil leaves it to the plugins.
	MAC net.HardwareAddr
	// IPs are addresses that the container wants. Some plugins insist on the length of
	// the prefix.
	IPs []IPRequest
	// IPRanges are pools of addresses: one address from each element, which is a list
	// of ranges.
	IPRanges [][]IPRange
	// CgroupPath is the pod's control group.
	CgroupPath string
	// Other are further arguments by name; each value must have a form in JSON.
	Other map[string]any
}

// PortMapping leads a port of the host to one of the container.
type PortMapping struct {
	HostPort      uint16 `json:"hostPort"`
	ContainerPort uint16 `json:"containerPort"`
	// Protocol is "tcp", "udp" or "sctp"; empty means tcp.
	Protocol string `json:"protocol"`
	// HostIP limits the mapping to one address of the host; the zero Addr means all.
	HostIP netip.Addr `json:"hostIP,omitzero"`
}

// Bandwidth is in bits per second and bits. A zero rate is no limit; a zero burst
// beside a rate is 2³¹−1 bits, as dockershim and its followers have it.
type Bandwidth struct {
	IngressRate  uint64 `json:"ingressRate,omitempty"`
	IngressBurst uint64 `json:"ingressBurst,omitempty"`
	EgressRate   uint64 `json:"egressRate,omitempty"`
	EgressBurst  uint64 `json:"egressBurst,omitempty"`
}

// DNS configures a resolver.
type DNS struct {
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// IPRequest is an address with or without the length of its prefix: "10.1.0.5" or
// "10.1.0.5/16".
type IPRequest string

// IPRange is a part of a subnet. Start, End and Gateway may be zero.
type IPRange struct {
	Subnet  netip.Prefix `json:"subnet"`
	Start   netip.Addr   `json:"rangeStart,omitzero"`
	End     netip.Addr   `json:"rangeEnd,omitzero"`
	Gateway netip.Addr   `json:"gateway,omitzero"`
}

// validate names what no plugin could use.
func (c *Capabilities) validate() error {
	for i, m := range c.PortMappings {
		switch {
		case m.HostPort == 0 || m.ContainerPort == 0:
			return fmt.Errorf("Capabilities.PortMappings[%d]: %d:%d, neither port may be 0", i, m.HostPort, m.ContainerPort)
		case !slices.Contains([]string{"", "tcp", "udp", "sctp"}, strings.ToLower(m.Protocol)):
			return fmt.Errorf("Capabilities.PortMappings[%d]: protocol %q, want tcp, udp or sctp", i, m.Protocol)
		}
	}
	for i, ip := range c.IPs {
		_, errAddr := netip.ParseAddr(string(ip))
		_, errPrefix := netip.ParsePrefix(string(ip))
		if errAddr != nil && errPrefix != nil {
			return fmt.Errorf("Capabilities.IPs[%d]: %q is neither an address nor one with a prefix length", i, ip)
		}
	}
	for i, set := range c.IPRanges {
		for j, r := range set {
			if !r.Subnet.IsValid() {
				return fmt.Errorf("Capabilities.IPRanges[%d][%d]: the subnet is missing", i, j)
			}
		}
	}
	for name := range c.Other {
		if slices.Contains([]string{"portMappings", "bandwidth", "dns", "mac", "ips", "ipRanges", "cgroupPath"}, name) {
			return fmt.Errorf("Capabilities.Other[%q]: has a field of its own", name)
		}
	}
	return nil
}

// args returns the arguments that are set, in JSON, by the names of the conventions.
func (c *Capabilities) args() (map[string]json.RawMessage, error) {
	set := maps.Clone(c.Other)
	if set == nil {
		set = map[string]any{}
	}
	if len(c.PortMappings) > 0 {
		set["portMappings"] = normalPorts(c.PortMappings)
	}
	if c.Bandwidth != nil && *c.Bandwidth != (Bandwidth{}) {
		set["bandwidth"] = c.Bandwidth.withBursts()
	}
	if c.DNS != nil {
		set["dns"] = c.DNS
	}
	if len(c.MAC) > 0 {
		set["mac"] = c.MAC.String()
	}
	if len(c.IPs) > 0 {
		set["ips"] = c.IPs
	}
	if len(c.IPRanges) > 0 {
		set["ipRanges"] = c.IPRanges
	}
	if c.CgroupPath != "" {
		set["cgroupPath"] = c.CgroupPath
	}
	args := make(map[string]json.RawMessage, len(set))
	for name, value := range set {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("capability argument %s: %w", name, err)
		}
		args[name] = data
	}
	return args, nil
}

func normalPorts(ports []PortMapping) []PortMapping {
	normal := slices.Clone(ports)
	for i := range normal {
		normal[i].Protocol = strings.ToLower(normal[i].Protocol)
		if normal[i].Protocol == "" {
			normal[i].Protocol = "tcp"
		}
	}
	return normal
}

func (b Bandwidth) withBursts() Bandwidth {
	if b.IngressRate > 0 && b.IngressBurst == 0 {
		b.IngressBurst = math.MaxInt32
	}
	if b.EgressRate > 0 && b.EgressBurst == 0 {
		b.EgressBurst = math.MaxInt32
	}
	return b
}

// unclaimed returns the names of arguments that no plugin of the network takes,
// sorted.
func unclaimed(n *Network, args map[string]json.RawMessage) []string {
	var names []string
	for name := range args {
		if !slices.Contains(n.Capabilities(), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
