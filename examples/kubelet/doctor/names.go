package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
)

// lookAtResolver looks at the file from which pods with dnsPolicy Default, and the cluster's
// DNS itself, get their servers.
func lookAtResolver(_ context.Context, n *Node, r *report) {
	path := n.Kubelet.ResolverConfig
	if path == nil || *path == "" {
		r.skip("resolvConf is empty: pods have no DNS of the machine")
		return
	}
	data, err := os.ReadFile(*path)
	if err != nil {
		r.problem("correct resolvConf: pods with dnsPolicy Default do not start", "%s", err)
		return
	}
	var servers []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		servers = append(servers, fields[1])
		if ip, err := netip.ParseAddr(fields[1]); err == nil && ip.IsLoopback() {
			r.problem("set resolvConf to the file with the real servers: with systemd-resolved /run/systemd/resolve/resolv.conf", "%s names %s, which in a pod is the pod itself: the cluster's DNS asks itself in a loop", *path, fields[1])
		}
	}
	if r.fine() {
		r.ok("%s names %d servers", *path, len(servers))
	}
}

// lookAtDNS asks each server that pods get for the name of the API server.
func lookAtDNS(ctx context.Context, n *Node, r *report) {
	if len(n.Kubelet.ClusterDNS) == 0 {
		r.skip("clusterDNS is not set: pods get the machine's DNS")
		return
	}
	name := "kubernetes.default.svc"
	if n.Kubelet.ClusterDomain != "" {
		name += "." + strings.TrimSuffix(n.Kubelet.ClusterDomain, ".")
	}
	for _, server := range n.Kubelet.ClusterDNS {
		r.askDNS(ctx, serverPort(server), name+".")
	}
}

func serverPort(server string) string {
	if _, err := netip.ParseAddr(server); err == nil {
		return net.JoinHostPort(server, "53")
	}
	return server
}

// askDNS asks one server.
func (r *report) askDNS(ctx context.Context, server, name string) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}
	addresses, err := resolver.LookupHost(ctx, name)
	var failure *net.DNSError
	switch {
	case err == nil:
		r.ok("%s knows %s: %s", server, name, strings.Join(addresses, ", "))
	case errors.As(err, &failure) && failure.IsNotFound:
		r.problem("look whether clusterDomain is that of the cluster's DNS", "%s does not know %s", server, name)
	default:
		if failure != nil {
			err = errors.New(failure.Err) // without a server that was not asked
		}
		r.problem("look whether kube-proxy runs on this node and the cluster's DNS anywhere: kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide",
			"%s does not answer: %s", server, err)
	}
}
