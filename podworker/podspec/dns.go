package podspec

import (
	"bufio"
	"bytes"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// DNS is how the pods of a node resolve names.
type DNS struct {
	// Host is the resolver configuration of the node, see [ParseResolvConf].
	Host Resolver
	// ClusterDNS are the addresses of the cluster's name servers; empty: pods that
	// ask for cluster DNS get Host.
	ClusterDNS []string
	// ClusterDomain is the DNS domain of the cluster, such as "cluster.local".
	ClusterDomain string
	// Default is what pods get that use the resolver of the node; nil: Host. It is for
	// nodes that keep theirs for themselves, see [NoResolver].
	Default *Resolver
}

// NoResolver returns the configuration of pods that are to resolve nothing on a node
// with these addresses, as resolvConf: "" asks: servers on the loopback interface, and
// a search list that keeps a runtime from using its own.
func NoResolver(nodeIPs []string) Resolver {
	r := Resolver{Searches: []string{"."}}
	for _, ip := range nodeIPs {
		server := "127.0.0.1"
		if a, err := netip.ParseAddr(ip); err == nil && a.Unmap().Is6() {
			server = "::1"
		}
		r.Servers = union(r.Servers, []string{server})
	}
	if len(r.Servers) == 0 {
		r.Servers = []string{"127.0.0.1"}
	}
	return r
}

// Resolver is the content of a resolv.conf(5).
type Resolver struct {
	Servers, Searches, Options []string
}

// The limits of a resolver in a pod
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-search-domain-list-limits).
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// ParseResolvConf reads a resolv.conf(5). Lines it does not know are skipped, as
// the C library does. The last search line counts; names in it lose a dot at the end,
// but "." alone stays.
func ParseResolvConf(content []byte) Resolver {
	var r Resolver
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			r.Servers = append(r.Servers, words[1])
		case "search":
			r.Searches = domains(words[1:])
		case "domain":
			r.Searches = domains(words[1:2])
		case "options":
			r.Options = words[1:]
		}
	}
	return r
}

func domains(names []string) []string {
	for i, n := range names {
		if n != "." {
			names[i] = strings.TrimSuffix(n, ".")
		}
	}
	return names
}

// Resolve returns the resolver configuration of a pod, and what of it had to be
// left out for the limits of resolvers, as one sentence per cut.
func (d *DNS) Resolve(pod *corev1.Pod) (Resolver, []string) {
	r := d.base(pod)
	if c := pod.Spec.DNSConfig; c != nil {
		r.Servers = union(r.Servers, c.Nameservers)
		r.Searches = union(r.Searches, c.Searches)
		r.Options = mergeOptions(r.Options, c.Options)
	}
	return r.limit()
}

// UsesClusterDNS reports whether the pod asks for the cluster's name servers.
func UsesClusterDNS(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSClusterFirstWithHostNet:
		return true
	case corev1.DNSClusterFirst, "":
		return !pod.Spec.HostNetwork
	}
	return false
}

func (d *DNS) base(pod *corev1.Pod) Resolver {
	if pod.Spec.DNSPolicy == corev1.DNSNone {
		return Resolver{}
	}
	switch cluster := UsesClusterDNS(pod) && len(d.ClusterDNS) > 0; {
	case !cluster && d.Default != nil:
		return *d.Default
	case !cluster:
		return d.Host
	}
	r := Resolver{Servers: d.ClusterDNS, Options: []string{"ndots:5"}}
	if d.ClusterDomain != "" {
		svc := "svc." + d.ClusterDomain
		r.Searches = []string{pod.Namespace + "." + svc, svc, d.ClusterDomain}
	}
	r.Searches = union(r.Searches, d.Host.Searches)
	return r
}

func union(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for _, s := range slices.Concat(a, b) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// mergeOptions lets the pod's options replace those of the same name.
func mergeOptions(base []string, own []corev1.PodDNSConfigOption) []string {
	var out []string
	for _, o := range base {
		name, _, _ := strings.Cut(o, ":")
		if !slices.ContainsFunc(own, func(p corev1.PodDNSConfigOption) bool { return p.Name == name }) {
			out = append(out, o)
		}
	}
	for _, p := range own {
		if p.Value == nil || *p.Value == "" {
			out = append(out, p.Name)
			continue
		}
		out = append(out, p.Name+":"+*p.Value)
	}
	return out
}

func (r Resolver) limit() (Resolver, []string) {
	var cuts []string
	if len(r.Servers) > maxServers {
		r.Servers = r.Servers[:maxServers]
		cuts = append(cuts, "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+
			strings.Join(r.Servers, " "))
	}
	kept := r.Searches
	if len(kept) > maxSearches {
		kept = kept[:maxSearches]
	}
	for len(strings.Join(kept, " ")) > maxSearchChars {
		kept = kept[:len(kept)-1]
	}
	if len(kept) < len(r.Searches) {
		r.Searches = kept
		cuts = append(cuts, "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+
			strings.Join(kept, " "))
	}
	return r, cuts
}

func (r Resolver) config() *runtimeapi.DNSConfig {
	return &runtimeapi.DNSConfig{Servers: r.Servers, Searches: r.Searches, Options: r.Options}
}
