package podspec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

func TestParseResolvConf(t *testing.T) {
	const file = "# comment\nnameserver 192.0.2.1\nnameserver\t2001:db8::1\nsearch old\nsearch a.example b.example\noptions ndots:2 rotate\nsortlist x\n"
	want := podspec.Resolver{Servers: []string{"192.0.2.1", "2001:db8::1"}, Searches: []string{"a.example", "b.example"}, Options: []string{"ndots:2", "rotate"}}
	if diff := cmp.Diff(want, podspec.ParseResolvConf([]byte(file))); diff != "" {
		t.Errorf("resolver (-want +got):\n%s", diff)
	}
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add([]byte("nameserver 192.0.2.1\nsearch a b\noptions ndots:5"))
	f.Add([]byte("domain x\n\n#\nnameserver"))
	f.Fuzz(func(t *testing.T, content []byte) {
		r := podspec.ParseResolvConf(content)
		for _, word := range append(append(r.Servers, r.Searches...), r.Options...) {
			if word == "" || strings.ContainsAny(word, " \n") {
				t.Errorf("%q gives the word %q", content, word)
			}
		}
	})
}

func TestResolve(t *testing.T) {
	five := "5"
	cluster := podspec.DNS{
		Host:       podspec.Resolver{Servers: []string{"192.0.2.1"}, Searches: []string{"corp.example"}, Options: []string{"rotate"}},
		ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
	}
	standalone := podspec.DNS{Host: cluster.Host}
	inCluster := podspec.Resolver{
		Servers:  []string{"10.96.0.10"},
		Searches: []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"},
		Options:  []string{"ndots:5"},
	}
	tests := []struct {
		name string
		dns  podspec.DNS
		edit func(*corev1.PodSpec)
		want podspec.Resolver
	}{
		{name: "default policy", dns: cluster, want: inCluster},
		{name: "cluster first, no cluster DNS", dns: standalone, want: cluster.Host},
		{name: "host network", dns: cluster, edit: func(s *corev1.PodSpec) { s.HostNetwork = true }, want: cluster.Host},
		{
			name: "host network with cluster DNS", dns: cluster, want: inCluster,
			edit: func(s *corev1.PodSpec) { s.HostNetwork, s.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet },
		},
		{name: "default", dns: cluster, edit: func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSDefault }, want: cluster.Host},
		{
			name: "none", dns: cluster, want: podspec.Resolver{Servers: []string{"198.51.100.1"}, Searches: []string{"x"}, Options: []string{"ndots:5", "edns0"}},
			edit: func(s *corev1.PodSpec) {
				s.DNSPolicy = corev1.DNSNone
				s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"198.51.100.1"}, Searches: []string{"x"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}, {Name: "edns0"}}}
			},
		},
		{
			name: "merged", dns: podspec.DNS{Host: podspec.Resolver{Servers: []string{"192.0.2.1"}, Searches: []string{"a"}, Options: []string{"ndots:1", "rotate"}}},
			edit: func(s *corev1.PodSpec) {
				s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"b", "a"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}}}
			},
			want: podspec.Resolver{Servers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"a", "b"}, Options: []string{"rotate", "ndots:5"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web()
			if tt.edit != nil {
				tt.edit(&pod.Spec)
			}
			got, cuts := tt.dns.Resolve(pod)
			if diff := cmp.Diff(tt.want, got); diff != "" || len(cuts) > 0 {
				t.Errorf("cuts %q, resolver (-want +got):\n%s", cuts, diff)
			}
		})
	}
}

func TestResolveKeepsTheLimits(t *testing.T) {
	var dns podspec.DNS
	for i := range 40 {
		dns.Host.Servers = append(dns.Host.Servers, fmt.Sprintf("192.0.2.%d", i))
		dns.Host.Searches = append(dns.Host.Searches, strings.Repeat("x", 60)+fmt.Sprint(i))
	}
	got, cuts := dns.Resolve(web())
	if len(got.Servers) != 3 || len(got.Searches) != 32 || len(cuts) != 2 {
		t.Errorf("%d servers, %d searches, cuts %q; want 3, 32 and two cuts", len(got.Servers), len(got.Searches), cuts)
	}
	dns.Host.Searches = []string{strings.Repeat("x", 2000), strings.Repeat("y", 2000)}
	if got, _ = dns.Resolve(web()); len(got.Searches) != 1 {
		t.Errorf("%d long searches, want 1", len(got.Searches))
	}
}

func TestHostname(t *testing.T) {
	override := "other"
	tests := []struct {
		name string
		edit func(*corev1.Pod)
		want string
	}{
		{name: "pod name", edit: func(*corev1.Pod) {}, want: "web"},
		{name: "hostname", edit: func(p *corev1.Pod) { p.Spec.Hostname = "h" }, want: "h"},
		{name: "override", edit: func(p *corev1.Pod) { p.Spec.HostnameOverride = &override }, want: "other"},
		{name: "long", edit: func(p *corev1.Pod) { p.Name = strings.Repeat("x", 62) + "-.abc" }, want: strings.Repeat("x", 62)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sandbox(t, web(tt.edit), node(), podspec.SandboxRun{}).Config.GetHostname(); got != tt.want {
				t.Errorf("hostname is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFQDNAsHostname(t *testing.T) {
	yes, override := true, "other"
	base := func(p *corev1.Pod) {
		p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "h", "sub", &yes
	}
	tests := []struct {
		name        string
		edit        func(*corev1.Pod)
		want, fails string
		// bare says that the cluster has no domain.
		bare bool
	}{
		{name: "in a subdomain", edit: base, want: "h.sub.default.svc.cluster.local"},
		{name: "of a cluster without a domain", edit: base, bare: true, want: "h.sub.default.svc."},
		{name: "not asked for", edit: func(p *corev1.Pod) { base(p); p.Spec.SetHostnameAsFQDN = nil }, want: "h"},
		{name: "without a subdomain", edit: func(p *corev1.Pod) { base(p); p.Spec.Subdomain = "" }, want: "h"},
		{name: "override", edit: func(p *corev1.Pod) { base(p); p.Spec.HostnameOverride = &override }, want: "other"},
		{name: "64 characters", edit: func(p *corev1.Pod) { base(p); p.Spec.Hostname = strings.Repeat("x", 34) }, want: strings.Repeat("x", 34) + ".sub.default.svc.cluster.local"},
		{
			name: "65 characters", edit: func(p *corev1.Pod) { base(p); p.Spec.Hostname = strings.Repeat("x", 35) },
			fails: "failed to construct FQDN from pod hostname and cluster domain, FQDN " + strings.Repeat("x", 35) +
				".sub.default.svc.cluster.local is too long (64 characters is the max, 65 characters requested)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := node()
			if !tt.bare {
				n.DNS.ClusterDomain = "cluster.local"
			}
			got, err := podspec.Sandbox(web(tt.edit), n, podspec.SandboxRun{})
			if tt.fails != "" {
				if err == nil || err.Error() != tt.fails {
					t.Errorf("error is %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil || got.Config.GetHostname() != tt.want {
				t.Errorf("hostname is %q (%v), want %q", got.Config.GetHostname(), err, tt.want)
			}
		})
	}
}

// TestNodeKeepsItsResolver: with resolvConf: "" pods that would use the node's resolver
// get none, and those of the cluster get nothing of it.
func TestNodeKeepsItsResolver(t *testing.T) {
	none := podspec.NoResolver([]string{"10.0.0.2", "fd00::2"})
	dns := podspec.DNS{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "d", Default: &none}
	got, _ := dns.Resolve(web(func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSDefault }))
	if diff := cmp.Diff(podspec.Resolver{Servers: []string{"127.0.0.1", "::1"}, Searches: []string{"."}}, got); diff != "" {
		t.Errorf("policy Default (-want +got):\n%s", diff)
	}
	got, _ = dns.Resolve(web())
	want := podspec.Resolver{Servers: []string{"10.96.0.10"}, Searches: []string{"default.svc.d", "svc.d", "d"}, Options: []string{"ndots:5"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy ClusterFirst (-want +got):\n%s", diff)
	}
}

func TestCgroupParent(t *testing.T) {
	const uid = "1234-ab"
	tests := []struct {
		name, want, path string
		cgroups          podspec.Cgroups
		class            corev1.PodQOSClass
	}{
		{name: "guaranteed", class: corev1.PodQOSGuaranteed, want: "/kubepods/pod1234-ab", path: "/kubepods/pod1234-ab"},
		{name: "burstable below a root", class: corev1.PodQOSBurstable, cgroups: podspec.Cgroups{Root: "/a/b"}, want: "/a/b/kubepods/burstable/pod1234-ab", path: "/a/b/kubepods/burstable/pod1234-ab"},
		{
			name: "systemd", class: corev1.PodQOSBestEffort, cgroups: podspec.Cgroups{Systemd: true},
			want: "kubepods-besteffort-pod1234_ab.slice", path: "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1234_ab.slice",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.cgroups.Parent(uid, tt.class); got != tt.want {
				t.Errorf("Parent = %s, want %s", got, tt.want)
			}
			if got := tt.cgroups.Path(uid, tt.class); got != tt.path {
				t.Errorf("Path = %s, want %s", got, tt.path)
			}
		})
	}
}
