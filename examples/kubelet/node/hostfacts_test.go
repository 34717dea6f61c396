package node

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// TestMachineThatChanges: a machine may get its addresses, its name servers and its hosts
// after the kubelet has started, and other ones later. What cannot be read stays.
func TestMachineThatChanges(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		resolver := filepath.Join(dir, "resolv.conf")
		put := func(path, content string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		var ips []string
		f := &hostFacts{
			log: slog.New(slog.NewTextHandler(&log, nil)), ips: func() []string { return ips },
			hosts: filepath.Join(dir, "hosts"), resolver: &resolver,
		}
		want := func(when string, want podsync.Facts) {
			t.Helper()
			time.Sleep(factsAge)
			if diff := cmp.Diff(want, f.get()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		put(resolver, "nameserver 192.0.2.1\n")
		want("at boot", podsync.Facts{DNS: podspec.DNS{Host: podspec.Resolver{Servers: []string{"192.0.2.1"}}}})
		put(resolver, "nameserver 192.0.2.2\n")
		put(f.hosts, "192.0.2.9 node-a\n")
		ips = []string{"192.0.2.9"}
		now := podsync.Facts{IPs: ips, Hosts: []byte("192.0.2.9 node-a\n"), DNS: podspec.DNS{Host: podspec.Resolver{Servers: []string{"192.0.2.2"}}}}
		want("with a lease", now)
		if err := os.Remove(resolver); err != nil {
			t.Fatal(err)
		}
		ips = []string{"192.0.2.10"}
		now.IPs = ips
		want("without a file", now)
		want("without a file, later", now)
		if got := strings.Count(log.String(), "resolv.conf: no such file"); got != 1 {
			t.Errorf("the log tells %d times that a file is gone, want once:\n%s", got, &log)
		}
	})
}

// TestGivenAddressesWithoutACluster: the addresses that were given go before those of the
// machine on a node of its own, too.
func TestGivenAddressesWithoutACluster(t *testing.T) {
	host := &podspec.Node{IPs: []string{"192.0.2.9"}}
	given := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}
	for _, tt := range []struct {
		name string
		ips  []netip.Addr
		want []string
	}{
		{name: "none", want: host.IPs},
		{name: "one of each family", ips: given, want: []string{"10.0.0.7", "fd00::7"}},
		{name: "a family", ips: []netip.Addr{netip.IPv4Unspecified()}, want: host.IPs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &Node{cfg: Config{IPs: tt.ips, Host: host}}
			if diff := cmp.Diff(tt.want, n.ips()); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
	if got := ofFamily(true, []string{"192.0.2.9", "fd00::9"}); !cmp.Equal(got, []string{"fd00::9"}) {
		t.Errorf("the address of IPv6 is %v", got)
	}
	if got := ofFamily(true, host.IPs); !cmp.Equal(got, host.IPs) {
		t.Errorf("without IPv6 the address is %v", got)
	}
	cfg := Config{Kubelet: &kubeletconfig.KubeletConfiguration{}, Name: "a", IPs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("a loopback address: error %v", err)
	}
}

func TestAddressesOfANode(t *testing.T) {
	internal := func(ip string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
	}
	external := func(ip string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
	}
	for _, tt := range []struct {
		name string
		has  []corev1.NodeAddress
		want []string
	}{
		{name: "none"},
		{name: "only a name", has: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "10.0.0.1"}}},
		{name: "internal first", has: []corev1.NodeAddress{external("192.0.2.1"), internal("10.0.0.1"), internal("10.0.0.2")}, want: []string{"10.0.0.1"}},
		{name: "one of each family", has: []corev1.NodeAddress{internal("fd00::1"), internal("fd00::2"), internal("10.0.0.1")}, want: []string{"fd00::1", "10.0.0.1"}},
		{name: "other family outside", has: []corev1.NodeAddress{internal("10.0.0.1"), external("2001:db8::1")}, want: []string{"10.0.0.1", "2001:db8::1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, addressesOf(tt.has)); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}
