// Package proxy wires a kube-proxy out of nodekit's packages: an API server, or a
// directory of Service manifests and the kubelet's pods, for input; the proxier for the
// desired state; nftables or iptables, and conntrack, for the kernel; health checks and metrics.
//
// It is not for reuse of one part: take that part's package instead.
//
//	p, err := proxy.New(proxy.Config{SourceDir: "/etc/nodekit/services"})
//	...
//	err = p.Run(ctx)
//
// Every part can be replaced in Config. A Proxy runs once. CAP_NET_ADMIN is needed;
// for iptables, CAP_NET_RAW, too.
package proxy
