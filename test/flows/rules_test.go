package flows

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/iptables"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// TestKernelRulesEqualThoseOfKubeProxy compares our iptables rules with those of a
// running kube-proxy, line by line, and takes them over: there must be nothing to
// write, so that no connection can be lost.
func TestKernelRulesEqualThoseOfKubeProxy(t *testing.T) {
	t.Parallel()
	testnode.NeedTools(t)
	binary, err := testnode.ToolOf(t.Context(), "kube-proxy", "test/tools/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	w := proxiertest.NewWorld(t)
	var state *proxier.State
	t.Run("stock", func(t *testing.T) { // kube-proxy ends with it, and its rules stay
		stock := start(t, w, binary, "iptables")
		o := variety()
		if err := stock.Set(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		service, slices, _ := marker(stock.sets)
		o.Services, o.Slices = append(o.Services, service), append(o.Slices, slices...)
		state = stateOf(o)
	})
	if t.Failed() {
		return
	}
	theirs := saved(t, w)
	if len(theirs) < 500 {
		t.Fatalf("kube-proxy has %d rules, that can't be all", len(theirs))
	}
	b := backend(t, w)
	plan, err := b.Plan(t.Context(), state)
	if err != nil || len(plan) > 0 {
		t.Errorf("to take over, a Reset would change, %v:\n%s", err, strings.Join(plan, "\n"))
	}
	fresh := proxiertest.NewWorld(t)
	if err := backend(t, fresh).Reset(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs, saved(t, fresh)); diff != "" {
		t.Errorf("rules (-kube-proxy +ours):\n%s", diff)
	}
}

func backend(tb testing.TB, w *proxiertest.World) *iptables.Backend {
	tb.Helper()
	b, err := iptables.New(iptables.Config{
		NetNS: w.NetNS(proxiertest.OurNode), Variant: iptables.NFT, LocalhostNodePorts: true,
		Local:   iptables.Local{ClusterCIDRs: proxiertest.PodRanges()},
		Problem: func(p iptables.Problem) { tb.Errorf("problem: %s", p) },
	})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// saved returns all rules of both families, sorted.
func saved(tb testing.TB, w *proxiertest.World) []string {
	tb.Helper()
	var out []string
	for _, command := range []string{"iptables-nft-save", "ip6tables-nft-save"} {
		var text string
		err := w.Do(proxiertest.OurNode, func() error {
			out, err := exec.Command(command).Output()
			text = string(out)
			return err
		})
		if err != nil {
			tb.Fatalf("%s: %v", command, err)
		}
		table := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if name, ok := strings.CutPrefix(line, "*"); ok {
				table = name
			}
			if name, _, _ := strings.Cut(line, " ["); line != "" && !strings.HasPrefix(line, "#") {
				out = append(out, command+" "+table+" "+name) // without packet counters
			}
		}
	}
	slices.Sort(out)
	return out
}

func stateOf(o proxiertest.Objects) *proxier.State {
	t := proxier.NewTracker(proxier.TrackerConfig{Node: proxier.Node{Name: proxiertest.NodeName}})
	for _, s := range o.Services {
		t.SetService(s)
	}
	for _, s := range o.Slices {
		t.SetEndpointSlice(s)
	}
	s := t.State()
	s.Network.NodeAddrs = []netip.Addr{proxiertest.OurNode.Addr(proxier.IPv4), proxiertest.OurNode.Addr(proxier.IPv6)}
	return s
}

// variety are Services with all that makes a difference for rules.
func variety() proxiertest.Objects {
	var o proxiertest.Objects
	add := func(name string, change func(*corev1.Service), eps ...discoveryv1.Endpoint) {
		svc, es := dualStack(len(o.Services)+1, name, eps)
		change(svc)
		o.Services, o.Slices = append(o.Services, svc), append(o.Slices, es...)
	}
	same := func(*corev1.Service) {}
	balanced := func(s *corev1.Service) {
		n := s.Spec.Ports[0].NodePort
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.ExternalIPs = []string{fmt.Sprintf("192.0.2.%d", n%100), fmt.Sprintf("2001:db8:e::%d", n%100)}
		for _, ip := range []string{fmt.Sprintf("203.0.113.%d", n%100), fmt.Sprintf("2001:db8:b::%d", n%100)} {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
	local := func(s *corev1.Service) {
		balanced(s)
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.HealthCheckNodePort = 31000 + s.Spec.Ports[0].NodePort%100
	}
	clusterOnly := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeClusterIP
		s.Spec.ExternalTrafficPolicy = ""
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].NodePort = 0
		}
	}
	far, near := on(proxiertest.Far1), on(proxiertest.Pod1)
	add("node-port", same, far, near, on(proxiertest.Far2), on(proxiertest.Pod2))
	add("cluster-ip", clusterOnly, far)
	add("balanced", balanced, far, near)
	add("ranges", func(s *corev1.Service) {
		balanced(s)
		s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "198.51.100.0/24", "2001:db8:f::/48"}
	}, far)
	add("local", local, far, near)
	add("local-without", local, far)
	add("local-ranges", func(s *corev1.Service) {
		local(s)
		s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24", "2001:db8:f::/48"}
	}, far)
	add("nobody", balanced)
	add("nobody-inside", clusterOnly)
	add("internal-local", func(s *corev1.Service) {
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}, far, near)
	add("internal-local-without", func(s *corev1.Service) {
		clusterOnly(s)
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}, far)
	add("affinity", func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(77))}}
	}, far, near)
	draining := on(proxiertest.Far2)
	draining.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	add("draining", local, draining)
	var seven []discoveryv1.Endpoint
	for n := range 7 {
		e := far
		e.Addresses = []string{fmt.Sprintf("10.244.9.%d", 7+n), fmt.Sprintf("fd00:244:9::%x", 7+n)}
		seven = append(seven, e)
	}
	add("seven", clusterOnly, seven...)
	return o
}

// on is an endpoint on a host, with an address of each family.
func on(h proxiertest.Host) discoveryv1.Endpoint {
	node := h.String()
	if h == proxiertest.Pod1 || h == proxiertest.Pod2 {
		node = proxiertest.NodeName
	}
	return discoveryv1.Endpoint{
		Addresses: []string{h.Addr(proxier.IPv4).String(), h.Addr(proxier.IPv6).String()}, NodeName: new(node),
		Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
	}
}

// dualStack is a Service of type NodePort with a port of each protocol that the kernel
// may have.
func dualStack(number int, name string, eps []discoveryv1.Endpoint) (*corev1.Service, []*discoveryv1.EndpointSlice) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			ClusterIPs: []string{fmt.Sprintf("10.96.0.%d", number), fmt.Sprintf("fd00:96::%d", number)},
		},
	}
	svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	var ports []discoveryv1.EndpointPort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		port := "by-" + strings.ToLower(string(protocol))
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
			Name: port, Protocol: protocol, Port: 80, NodePort: int32(30000 + number),
		})
		ports = append(ports, discoveryv1.EndpointPort{Name: new(port), Port: new(int32(8080)), Protocol: new(protocol)})
	}
	var out []*discoveryv1.EndpointSlice
	for i, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		es := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name + "-" + strings.ToLower(string(family)),
				Labels: map[string]string{discoveryv1.LabelServiceName: name},
			},
			AddressType: family, Ports: ports,
		}
		for _, e := range eps {
			e.Addresses = e.Addresses[i : i+1]
			es.Endpoints = append(es.Endpoints, e)
		}
		out = append(out, es)
	}
	return svc, out
}
