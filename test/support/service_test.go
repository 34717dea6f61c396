package support_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/iptables"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// modes are the backends of a proxy.
var modes = []string{"nftables", "iptables", "ipvs"}

// serviceFields say what becomes of the fields of Services and EndpointSlices: nothing,
// in three modes, or whose they are. A field that is not here is supported in all modes.
var serviceFields = map[string]string{
	"ServiceSpec.Selector":                      "the EndpointSlice controller's",
	"ServicePort.TargetPort":                    "the EndpointSlice controller's",
	"ServiceSpec.PublishNotReadyAddresses":      "the EndpointSlice controller's: it calls such endpoints ready",
	"ServiceSpec.TrafficDistribution":           "the EndpointSlice controller's: it gives endpoints hints",
	"ServiceSpec.LoadBalancerIP":                "the load balancer's",
	"ServiceSpec.LoadBalancerClass":             "the load balancer's",
	"LoadBalancerIngress.Hostname":              "the clients': a name leads to no address of this node",
	"LoadBalancerIngress.Ports":                 "the load balancer's: what came of each port",
	"ServiceStatus.Conditions":                  "those of controllers",
	"ServiceSpec.AllocateLoadBalancerNodePorts": "the API server's",
	"ServiceSpec.IPFamilyPolicy":                "the API server's: it gives the Service clusterIPs",
	"ServiceSpec.ExternalName":                  "the cluster DNS's",
	"ServicePort.AppProtocol":                   "those of proxies that look into connections",
	"EndpointPort.AppProtocol":                  "those of proxies that look into connections",
	"Endpoint.Hostname":                         "the cluster DNS's",
	"Endpoint.TargetRef":                        "for people and controllers",
	"Endpoint.DeprecatedTopology":               "nobody's any more",
	"Endpoint.Zone":                             "the EndpointSlice controller's: it gives endpoints hints",
}

// besideRules are fields of which not all modes show something in the rules of a single
// ServicePort. Tests show that they act on them.
var besideRules = map[string][]string{
	"ServiceSpec.HealthCheckNodePort":   {"proxier/healthcheck.TestNodePortsAnswerForLocalEndpoints"},
	"ServiceSpec.SessionAffinityConfig": {"proxier/nftables.TestRender"},
	"SessionAffinityConfig.ClientIP":    {"proxier/nftables.TestRender"},
	"ClientIPConfig.TimeoutSeconds":     {"proxier/nftables.TestRender"},
}

func isOthers(key string) bool { return serviceFields[key] != "" }

// serviceKeys are all fields of what a proxy reads.
func serviceKeys() []string {
	return slices.Concat(keys(reflect.TypeFor[corev1.ServiceSpec](), isOthers), keys(reflect.TypeFor[corev1.ServiceStatus](), isOthers),
		keys(reflect.TypeFor[discoveryv1.EndpointSlice](), isOthers))
}

// TestServiceFields takes each field from Services and EndpointSlices, one at a time, and
// looks for a difference in the rules of all modes, or for none.
func TestServiceFields(t *testing.T) {
	effects := serviceEffects(t)
	for _, key := range serviceKeys() {
		t.Run(key, func(t *testing.T) {
			got, known := effects[key]
			switch {
			case !known:
				t.Errorf("%s is in no Service or EndpointSlice of testdata/services.yaml", key)
			case isOthers(key) && len(got) > 0:
				t.Errorf("%s is said to be %s, but differs: %v", key, serviceFields[key], got)
			case isOthers(key):
			case len(besideRules[key]) > 0:
				if !slices.Contains(got, "proxier") {
					t.Errorf("%s changes nothing", key)
				}
			case !slices.Equal(got, append([]string{"proxier"}, modes...)):
				t.Errorf("%s changes something in %v, want it in all modes; or say what becomes of it", key, got)
			}
		})
	}
	for key := range serviceFields {
		if !slices.Contains(serviceKeys(), key) {
			t.Errorf("there is no field %s", key)
		}
	}
}

// serviceEffects returns, by field, where its absence is seen.
func serviceEffects(t *testing.T) map[string][]string {
	t.Helper()
	base := programmed(t, serviceSpecimens(t))
	out := map[string][]string{}
	for n, f := range fieldsOf(serviceSpecimens(t)) {
		changed := serviceSpecimens(t)
		fieldsOf(changed)[n].value.SetZero()
		now := programmed(t, changed)
		if _, known := out[f.key]; !known {
			out[f.key] = nil
		}
		for _, place := range append([]string{"proxier"}, modes...) {
			if now[place] != base[place] && !slices.Contains(out[f.key], place) {
				out[f.key] = append(out[f.key], place)
			}
		}
	}
	return out
}

// cluster is Services with their EndpointSlices.
type cluster struct {
	services []*corev1.Service
	slices   []*discoveryv1.EndpointSlice
}

func serviceSpecimens(t *testing.T) cluster {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "services.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c cluster
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		if strings.Contains(document, "kind: EndpointSlice") {
			slice := &discoveryv1.EndpointSlice{}
			err = yaml.UnmarshalStrict([]byte(document), slice)
			c.slices = append(c.slices, slice)
		} else {
			service := &corev1.Service{}
			err = yaml.UnmarshalStrict([]byte(document), service)
			c.services = append(c.services, service)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// fieldsOf returns every field of the objects that is set.
func fieldsOf(c cluster) []instance {
	var out []instance
	for _, s := range c.services {
		out = append(out, set(reflect.ValueOf(&s.Spec).Elem(), "spec")...)
		out = append(out, set(reflect.ValueOf(&s.Status).Elem(), "status")...)
	}
	for _, s := range c.slices {
		out = append(out, set(reflect.ValueOf(s).Elem(), "")...)
	}
	return out
}

var network = proxier.Network{
	NodeAddrs: []netip.Addr{netip.MustParseAddr("198.51.100.10")},
	PodCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
}

// programmed is what the core of the proxy makes of Services, and each mode of that, as
// text.
func programmed(t *testing.T, c cluster) map[string]string {
	t.Helper()
	out := map[string]string{}
	tracker := proxier.NewTracker(proxier.TrackerConfig{
		Node:   proxier.Node{Name: "node-a", Zone: "a"},
		Report: func(p proxier.Problem) { out["proxier"] += p.String() + "\n" },
	})
	for _, s := range c.services {
		tracker.SetService(s)
	}
	for _, s := range c.slices {
		tracker.SetEndpointSlice(s)
	}
	state := tracker.State()
	state.Network = network
	for _, p := range state.Ports {
		out["proxier"] += fmt.Sprintf("%+v\n", *p)
	}
	for mode, rules := range renderers(t) {
		for _, p := range state.Ports {
			out[mode] += strings.Join(rules(state, p), "\n") + "\n"
		}
	}
	return out
}

// renderers return the rules of a ServicePort in each mode.
func renderers(t *testing.T) map[string]func(*proxier.State, *proxier.ServicePort) []string {
	t.Helper()
	nft, err := nftables.New(nftables.Config{Local: nftables.Local{NodeCIDRs: true}, Problem: func(p nftables.Problem) { t.Error(p) }})
	if err != nil {
		t.Fatal(err)
	}
	ipt, err := iptables.New(iptables.Config{Local: iptables.Local{NodeCIDRs: true}, Problem: func(p iptables.Problem) { t.Error(p) }})
	if err != nil {
		t.Fatal(err)
	}
	vs, err := ipvs.New(ipvs.Config{Local: ipvs.Local{NodeCIDRs: true}, Problem: func(p ipvs.Problem) { t.Error(p) }})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(*proxier.State, *proxier.ServicePort) []string{
		"nftables": func(s *proxier.State, p *proxier.ServicePort) []string { return nft.Elements(s.Network, p) },
		"iptables": func(s *proxier.State, p *proxier.ServicePort) []string { return ipt.Rules(s.Network, p) },
		"ipvs":     func(s *proxier.State, p *proxier.ServicePort) []string { return vs.Lines(s, p) },
	}
}

// metadataFields are the labels and annotations of Services and EndpointSlices that are
// for proxies.
var metadataFields = []struct{ key, support, test string }{
	{"service.kubernetes.io/service-proxy-name", "supported: the proxy of this name serves the Service, no other one", "test/support.TestServiceMetadata"},
	{"service.kubernetes.io/headless", "supported: such EndpointSlices are passed over", "test/support.TestServiceMetadata"},
	{"kubernetes.io/service-name", "supported", "test/support.TestServiceMetadata"},
	{"service.kubernetes.io/topology-mode", "not the proxy's: the EndpointSlice controller's", "test/support.TestServiceMetadata"},
	{"nodekit.io/scheduler", "supported by ipvs; reported by nftables and iptables", "proxier/ipvs.TestSchedulersAndWeights"},
	{"nodekit.io/weights", "supported by ipvs; reported by nftables and iptables", "proxier/ipvs.TestSchedulersAndWeights"},
}

// TestServiceMetadata changes labels and annotations that are for proxies, and one that is
// not.
func TestServiceMetadata(t *testing.T) {
	base := programmed(t, serviceSpecimens(t))
	tests := []struct {
		name   string
		change func(*corev1.Service, *discoveryv1.EndpointSlice)
		want   bool // it makes a difference
	}{
		{name: "another proxy", change: func(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
			s.Labels = map[string]string{proxier.LabelServiceProxyName: "other"}
		}, want: true},
		{name: "headless", change: func(_ *corev1.Service, s *discoveryv1.EndpointSlice) { s.Labels[corev1.IsHeadlessService] = "" }, want: true},
		{name: "of no Service", change: func(_ *corev1.Service, s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) }, want: true},
		{name: "topology", change: func(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
			s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := serviceSpecimens(t)
			tt.change(c.services[0], c.slices[0])
			now := programmed(t, c)
			for _, mode := range modes {
				if (now[mode] != base[mode]) != tt.want {
					t.Errorf("%s: different: %t, want %t", mode, !tt.want, tt.want)
				}
			}
		})
	}
}
