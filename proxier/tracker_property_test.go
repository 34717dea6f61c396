package proxier_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// world is a set of objects, a Tracker that saw every change of it, and the state
// that the Tracker's deltas add up to.
type world struct {
	node     proxier.Node
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName]*discoveryv1.EndpointSlice
	tracker  *proxier.Tracker
	inForce  map[proxier.Key]*proxier.ServicePort
}

var equateState = cmp.Options{
	cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// TestTrackerEqualsFromScratch drives a Tracker through random events over few
// names, addresses and ports, so that they meet often, and compares it with the
// brute-force computation after each delta.
func TestTrackerEqualsFromScratch(t *testing.T) {
	for i := range 10 { // rapid's own count is for a whole run of tests
		t.Run(fmt.Sprint(i), func(t *testing.T) { rapid.Check(t, equalsFromScratch) })
	}
}

func equalsFromScratch(t *rapid.T) {
	node := proxier.Node{Name: "node-a", Zone: "z1"}
	w := &world{
		node:     node,
		services: map[types.NamespacedName]*corev1.Service{},
		slices:   map[types.NamespacedName]*discoveryv1.EndpointSlice{},
		tracker:  proxier.NewTracker(proxier.TrackerConfig{Node: node}),
		inForce:  map[proxier.Key]*proxier.ServicePort{},
	}
	t.Repeat(map[string]func(*rapid.T){
		"set service": func(t *rapid.T) {
			svc := randomService(t)
			w.services[nameOf(svc)] = svc
			w.tracker.SetService(svc)
		},
		"edit service": func(t *rapid.T) {
			if old := w.services[randomName(t, "svc")]; old != nil {
				svc := editService(t, old)
				w.services[nameOf(svc)] = svc
				w.tracker.SetService(svc)
			}
		},
		"edit slice": func(t *rapid.T) {
			if old := w.slices[randomName(t, "slice")]; old != nil {
				es := editSlice(t, old)
				w.slices[nameOf(es)] = es
				w.tracker.SetEndpointSlice(es)
			}
		},
		"delete service": func(t *rapid.T) {
			name := randomName(t, "svc")
			delete(w.services, name)
			w.tracker.DeleteService(name)
		},
		"set slice": func(t *rapid.T) {
			es := randomSlice(t)
			w.slices[nameOf(es)] = es
			w.tracker.SetEndpointSlice(es)
		},
		"delete slice": func(t *rapid.T) {
			name := randomName(t, "slice")
			delete(w.slices, name)
			w.tracker.DeleteEndpointSlice(name)
		},
		"move to a zone": func(t *rapid.T) {
			w.node.Zone = rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone")
			w.tracker.SetZone(w.node.Zone)
		},
		"delta": func(t *rapid.T) { w.apply(t); w.check(t) },
		"state": func(t *rapid.T) {
			clear(w.inForce)
			for _, sp := range w.tracker.State().Ports {
				w.inForce[sp.Key] = sp
			}
			w.check(t)
		},
	})
	w.apply(t)
	w.check(t)
	if d := w.tracker.Delta(); !d.Empty() {
		t.Fatalf("a second delta is not empty: %+v", d)
	}
}

func (w *world) apply(t *rapid.T) {
	d := w.tracker.Delta()
	for _, key := range d.Remove {
		if w.inForce[key] == nil {
			t.Fatalf("delta removes %v, which is not in force", key)
		}
		delete(w.inForce, key)
	}
	for _, sp := range d.Update {
		if slices.Contains(d.Remove, sp.Key) {
			t.Fatalf("delta both removes and updates %v", sp.Key)
		}
		if w.inForce[sp.Key].Equal(sp) {
			t.Fatalf("delta updates %v with what is in force", sp.Key)
		}
		w.inForce[sp.Key] = sp
	}
}

func (w *world) check(t *rapid.T) {
	want := proxiertest.Expect(w.node, slices.Collect(maps.Values(w.services)), slices.Collect(maps.Values(w.slices)))
	got := &proxier.State{}
	for _, key := range slices.SortedFunc(maps.Keys(w.inForce), proxier.Key.Compare) {
		got.Ports = append(got.Ports, w.inForce[key])
	}
	if diff := cmp.Diff(want, got, equateState); diff != "" {
		t.Fatalf("incremental state differs from a fresh one (-want +got):\n%s", diff)
	}
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func randomName(t *rapid.T, prefix string) types.NamespacedName {
	return types.NamespacedName{
		Namespace: oneOf(t, "namespace", "ns1", "ns1", "ns1", "ns2"),
		Name:      fmt.Sprintf("%s-%d", prefix, rapid.IntRange(0, 1).Draw(t, "name")),
	}
}

func randomMeta(t *rapid.T, prefix string) metav1.ObjectMeta {
	name := randomName(t, prefix)
	m := metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
	if at := rapid.Int64Range(0, 2).Draw(t, "created"); at > 0 {
		m.CreationTimestamp = metav1.Unix(at, 0)
	}
	// Metadata that means nothing here.
	m.ResourceVersion = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version")
	return m
}

func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func some[T comparable](t *rapid.T, label string, n int, values ...T) []T {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, n, rapid.ID).Draw(t, label)
}

func randomService(t *rapid.T) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: randomMeta(t, "svc")}
	if oneOf(t, "other proxy", 0, 0, 0, 0, 1) == 1 {
		svc.Labels = map[string]string{proxier.LabelServiceProxyName: "other"}
	}
	s := &svc.Spec
	s.Type = oneOf(t, "type", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)
	v4, v6 := oneOf(t, "v4", "10.96.0.1", "10.96.0.2"), oneOf(t, "v6", "fd00::1", "fd00::2")
	switch oneOf(t, "stack", "old", "v4", "v6", "v4v6", "v4v6", "v6v4", "headless") {
	case "old":
		s.ClusterIP = v4
	case "v4":
		s.ClusterIP, s.ClusterIPs, s.IPFamilies = v4, []string{v4}, []corev1.IPFamily{"IPv4"}
	case "v6":
		s.ClusterIP, s.ClusterIPs, s.IPFamilies = v6, []string{v6}, []corev1.IPFamily{"IPv6"}
	case "v4v6":
		s.ClusterIP, s.ClusterIPs, s.IPFamilies = v4, []string{v4, v6}, []corev1.IPFamily{"IPv4", "IPv6"}
	case "v6v4":
		s.ClusterIP, s.ClusterIPs, s.IPFamilies = v6, []string{v6, v4}, []corev1.IPFamily{"IPv6", "IPv4"}
	case "headless":
		s.ClusterIP = corev1.ClusterIPNone
	}
	s.ExternalIPs = some(t, "external", 2, "192.0.2.1", "192.0.2.2", "2001:db8::1", "10.96.0.1")
	if oneOf(t, "itp", true, false) {
		s.InternalTrafficPolicy = new(oneOf(t, "internal", corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceInternalTrafficPolicyCluster))
	}
	s.ExternalTrafficPolicy = oneOf(t, "etp", corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster)
	if oneOf(t, "affinity", true, false) {
		s.SessionAffinity = corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{
			TimeoutSeconds: new(oneOf(t, "timeout", int32(10), int32(20))),
		}}
	}
	if s.Type == corev1.ServiceTypeLoadBalancer {
		randomBalancer(t, svc)
	}
	for i, name := range some(t, "ports", 2, "", "http") {
		p := corev1.ServicePort{Name: name, Port: int32(80 + i), Protocol: oneOf(t, "protocol", corev1.ProtocolTCP, "", corev1.ProtocolUDP)}
		if s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer {
			p.NodePort = oneOf(t, "nodePort", int32(0), 30000, 30001)
		}
		s.Ports = append(s.Ports, p)
	}
	return svc
}

// editService changes one thing of a Service.
func editService(t *rapid.T, old *corev1.Service) *corev1.Service {
	svc, other := old.DeepCopy(), randomService(t)
	switch oneOf(t, "edit", "nothing", "created", "external", "policy", "port") {
	case "created":
		svc.CreationTimestamp = other.CreationTimestamp
	case "external":
		svc.Spec.ExternalIPs = other.Spec.ExternalIPs
	case "policy":
		svc.Spec.InternalTrafficPolicy, svc.Spec.ExternalTrafficPolicy = other.Spec.InternalTrafficPolicy, other.Spec.ExternalTrafficPolicy
	case "port":
		svc.Spec.Ports = slices.DeleteFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "extra" })
		if oneOf(t, "extra", true, false) {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "extra", Port: oneOf(t, "port", int32(80), 90)})
		}
	}
	return svc
}

// editSlice replaces one endpoint of a slice, or none.
func editSlice(t *rapid.T, old *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	es := old.DeepCopy()
	if n := len(es.Endpoints); n > 0 && oneOf(t, "edit", true, true, false) {
		es.Endpoints[rapid.IntRange(0, n-1).Draw(t, "which")] = randomEndpoint(t, es.AddressType)
	}
	return es
}

func randomBalancer(t *rapid.T, svc *corev1.Service) {
	svc.Spec.HealthCheckNodePort = 32000
	svc.Spec.LoadBalancerSourceRanges = some(t, "ranges", 3, "198.51.100.0/24", " 203.0.113.7/24 ", "2001:db8:1::/48", "0.0.0.0/0")
	for _, ip := range some(t, "ingress", 2, "192.0.2.1", "192.0.2.9", "2001:db8::1", "") {
		in := corev1.LoadBalancerIngress{IP: ip}
		if mode := oneOf(t, "ipMode", "", corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy); mode != "" {
			in.IPMode = &mode
		}
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, in)
	}
}

func randomSlice(t *rapid.T) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{ObjectMeta: randomMeta(t, "slice")}
	es.Labels = map[string]string{discoveryv1.LabelServiceName: fmt.Sprintf("svc-%d", rapid.IntRange(0, 1).Draw(t, "of"))}
	if oneOf(t, "headless", 0, 0, 0, 0, 1) == 1 {
		es.Labels[corev1.IsHeadlessService] = ""
	}
	es.AddressType = oneOf(t, "addressType", discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	for _, name := range some(t, "ports", 2, "", "http") {
		p := discoveryv1.EndpointPort{Name: &name, Port: new(oneOf(t, "port", int32(8080), 8081))}
		if protocol := oneOf(t, "protocol", "", "", corev1.ProtocolTCP, corev1.ProtocolUDP); protocol != "" {
			p.Protocol = &protocol
		}
		es.Ports = append(es.Ports, p)
	}
	for range rapid.IntRange(0, 4).Draw(t, "endpoints") {
		es.Endpoints = append(es.Endpoints, randomEndpoint(t, es.AddressType))
	}
	return es
}

func randomEndpoint(t *rapid.T, typ discoveryv1.AddressType) discoveryv1.Endpoint {
	prefix := map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "10.244.0.", discoveryv1.AddressTypeIPv6: "fd01::"}[typ]
	e := discoveryv1.Endpoint{Addresses: []string{prefix + fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "address"))}}
	e.Conditions.Ready = oneOf(t, "ready", nil, new(true), new(false), new(false))
	e.Conditions.Serving = oneOf(t, "serving", nil, new(true), new(false))
	e.Conditions.Terminating = oneOf(t, "terminating", nil, new(true), new(false))
	e.NodeName = oneOf(t, "node", nil, new("node-a"), new("node-b"))
	if oneOf(t, "hints", true, false) {
		e.Hints = &discoveryv1.EndpointHints{}
		for _, z := range some(t, "zones", 2, "z1", "z2") {
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: z})
		}
		for _, n := range some(t, "nodes", 2, "node-a", "node-b") {
			e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: n})
		}
	}
	return e
}

// A burst of changes to one name between two deltas comes out as their sum.
func TestTrackerChangeAndBack(t *testing.T) {
	tr := proxier.NewTracker(proxier.TrackerConfig{})
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", CreationTimestamp: metav1.NewTime(time.Unix(1, 0))},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Port: 80}}},
	}
	tr.SetService(svc)
	tr.Delta()
	tr.DeleteService(nameOf(svc))
	tr.SetService(svc)
	if d := tr.Delta(); !d.Empty() {
		t.Errorf("Delta() = %+v after a deletion was taken back, want nothing", d)
	}
}
