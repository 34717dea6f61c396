package node

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
)

const (
	// factsAge is how old what was read of the machine may be when a pod needs it: pods
	// are many, and a change is rare.
	factsAge = time.Second
	// hostsFile is the hosts(5) file of the machine.
	hostsFile = "/etc/hosts"
)

// hostFacts are what this machine contributes to pods and may change while the kubelet runs:
// its addresses, its hosts file, and how it resolves names. They are read when somebody
// asks, so that an idle node reads nothing.
type hostFacts struct {
	log   *slog.Logger
	ips   func() []string
	hosts string
	// resolver is the path of the resolver configuration; "": pods are to have none of the
	// machine's, nil: there is none.
	resolver *string

	mu sync.Mutex // guards the fields below
	// known are those that could be read last, the parts that do not change among them.
	known  podsync.Facts
	looked time.Time
	// health beats when all could be read.
	health pulse
}

// hostFacts returns what has the facts of this machine, or those that the configuration
// states in its place. An error says which file could not be read.
func (n *Node) hostFacts() (func() podsync.Facts, error) {
	if h := n.cfg.Host; h != nil {
		return func() podsync.Facts { return podsync.Facts{IPs: n.ips(), Hosts: h.Hosts, DNS: h.DNS} }, nil
	}
	k := n.cfg.Kubelet
	f := &hostFacts{log: n.log, ips: n.ips, hosts: hostsFile, resolver: k.ResolverConfig}
	f.known.DNS = podspec.DNS{ClusterDNS: k.ClusterDNS, ClusterDomain: k.ClusterDomain}
	return f.get, f.lookLocked() // nobody else has it yet
}

// get returns the facts. What cannot be read is as it was.
func (f *hostFacts) get() podsync.Facts {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.looked) < factsAge {
		return f.known
	}
	err := f.lookLocked()
	if f.health.beat(now, err) && err != nil {
		f.log.Error("the machine could not be looked at; new pods get what was there before", "err", err)
	}
	return f.known
}

// lookLocked reads all. Each part that can be read counts.
func (f *hostFacts) lookLocked() error {
	f.looked = time.Now()
	f.known.IPs = f.ips()
	hosts, hostsErr := os.ReadFile(f.hosts)
	if ignoreMissing(hostsErr) == nil {
		f.known.Hosts = hosts
	}
	switch {
	case f.resolver == nil:
	case *f.resolver == "":
		none := podspec.NoResolver(f.known.IPs)
		f.known.DNS.Default = &none
	default:
		content, err := os.ReadFile(*f.resolver)
		if err != nil {
			return fmt.Errorf("read resolvConf of the kubelet's configuration: %w", err)
		}
		f.known.DNS.Host = podspec.ParseResolvConf(content)
	}
	if err := ignoreMissing(hostsErr); err != nil {
		return fmt.Errorf("read the node's hosts file: %w", err)
	}
	return nil
}

// ips returns the addresses of the node that its pods are told: those of the Node, or what
// it is about to have, and without a control plane those of the configuration or the machine.
func (n *Node) ips() []string {
	if ips := n.beat.ips(); len(ips) > 0 {
		return ips
	}
	if given := specified(n.cfg.IPs); len(given) > 0 {
		return given
	}
	if n.cfg.Host != nil {
		return n.cfg.Host.IPs
	}
	ips := hostIPs()
	if len(n.cfg.IPs) > 0 {
		return ofFamily(n.cfg.IPs[0].Is6(), ips)
	}
	if n.beat != nil && len(ips) > 1 {
		ips = ips[:1] // the Node has one address of its own accord, and pods have the Node's
	}
	return ips
}

// ips returns the addresses of the Node, at most one of each family: those that were given
// to it, else those that the API server has, else those that it is about to be told; nil as
// long as nobody knows.
func (h *heartbeat) ips() []string {
	if h == nil {
		return nil
	}
	if given := specified(h.cfg.Addresses.NodeIPs); len(given) > 0 {
		return given
	}
	if n := h.object(); n != nil {
		if ips := addressesOf(n.Status.Addresses); len(ips) > 0 {
			return ips
		}
	}
	if found := h.found.Load(); found != nil {
		return addressesOf(*found)
	}
	return nil
}

// specified returns those that are addresses, and not a family whose address is to be found.
func specified(ips []netip.Addr) []string {
	var out []string
	for _, ip := range ips {
		if !ip.IsUnspecified() {
			out = append(out, ip.String())
		}
	}
	return out
}

// ofFamily returns the first address of a family, or of the other one on a machine without.
func ofFamily(ipv6 bool, ips []string) []string {
	for _, s := range ips {
		if ip, err := netip.ParseAddr(s); err == nil && ip.Is6() == ipv6 {
			return []string{s}
		}
	}
	return ips
}

// addressesOf returns the address of a Node and, if it has one, that of the other family.
// Internal addresses go before external ones, as with the kubelet.
func addressesOf(addresses []corev1.NodeAddress) []string {
	var ips []netip.Addr
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range addresses {
			ip, err := netip.ParseAddr(a.Address)
			if a.Type == kind && err == nil {
				ips = append(ips, ip.Unmap())
			}
		}
	}
	var out []string
	for _, ip := range ips {
		if len(out) == 0 || len(out) == 1 && ip.Is4() != ips[0].Is4() {
			out = append(out, ip.String())
		}
	}
	return out
}
