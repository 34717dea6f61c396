package proxy

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
)

// TestInGuestIPVSLeftovers removes what ipvs mode leaves, on a kernel that has it: few
// hosts do.
func TestInGuestIPVSLeftovers(t *testing.T) {
	if os.Getenv("NODEKIT_VM") == "" {
		t.Skip("runs in a guest of hack/vm: make test-guest")
	}
	node := netnstest.New(t)
	for _, script := range []string{
		"ip link add kube-ipvs0 type dummy",
		"ip addr add 10.96.0.10/32 dev kube-ipvs0",
		"ip addr add fd00:96::a/128 dev kube-ipvs0",
		"ip addr add 192.0.2.1/32 dev kube-ipvs0",
		"ipset create KUBE-CLUSTER-IP hash:ip,port && ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
		"ipset create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port,net family inet6",
		"ipset create other hash:ip",
		"iptables -t nat -N KUBE-SERVICES && iptables -t nat -A PREROUTING -j KUBE-SERVICES",
		"iptables -t nat -N KUBE-LOAD-BALANCER && iptables -t nat -A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-LOAD-BALANCER",
		"ipvsadm -A -t 10.96.0.10:80 -s rr && ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.5:8080 -m",
		"ipvsadm -A -u '[fd00:96::a]:53' -s rr",
		"ipvsadm -A -t 192.0.2.1:80 -s rr",
	} {
		if _, err := node.Run("sh", "-c", script); err != nil {
			t.Fatal(err)
		}
	}
	exclude := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for range 2 { // the second time there is nothing
		err := node.Do(func() error { return errors.Join(removeIPTables(t.Context()), removeIPVS(t.Context(), exclude)) })
		if err != nil {
			t.Fatal(err)
		}
	}
	left, err := node.Run("sh", "-c", "ip -o link; ipset -n list; iptables-save; ipvsadm -S -n")
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"kube-ipvs0", "KUBE-", "10.96.0.10", "fd00:96"} {
		if strings.Contains(left, gone) {
			t.Errorf("%s is left", gone)
		}
	}
	for _, stays := range []string{"192.0.2.1:80", "other"} {
		if !strings.Contains(left, stays) {
			t.Errorf("%s is gone, and is somebody else's", stays)
		}
	}
	if t.Failed() {
		t.Log(left)
	}
}
