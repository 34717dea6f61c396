package proxier_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

// FuzzTracker feeds a Service and an EndpointSlice with anything in their fields,
// and checks that a Backend can rely on what comes out.
func FuzzTracker(f *testing.F) {
	svc := `{"metadata":{"namespace":"n","name":"a"},"spec":{"type":"LoadBalancer","clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1","fd00::1"],
		"ipFamilies":["IPv4","IPv6"],"externalIPs":["192.0.2.1"],"loadBalancerSourceRanges":["10.0.0.0/8"],"sessionAffinity":"ClientIP",
		"externalTrafficPolicy":"Local","ports":[{"name":"p","port":80,"nodePort":30000}]},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.2"}]}}}`
	es := `{"metadata":{"namespace":"n","name":"a-1","labels":{"kubernetes.io/service-name":"a"}},"addressType":"IPv4",
		"ports":[{"name":"p","port":8080}],"endpoints":[{"addresses":["10.244.0.1"],"hints":{"forZones":[{"name":"z"}]}}]}`
	f.Add([]byte(svc), []byte(es))
	f.Add([]byte(`{"metadata":{"annotations":{"nodekit.io/scheduler":"lc","nodekit.io/weights":"local=3,other=1"}},"spec":{"clusterIP":"10.0.0.1","ports":[{"port":1}]}}`), []byte(`{}`))
	f.Add([]byte(`{"spec":{"clusterIP":"::ffff:1.2.3.4","ports":[{"port":1}]}}`), []byte(`{}`))
	f.Add([]byte(`{"spec":{"clusterIP":"x","ipFamilies":["IPv6"],"ports":[{"port":-1}]}}`), []byte(`{"endpoints":[{}]}`))
	f.Fuzz(func(t *testing.T, svcJSON, esJSON []byte) {
		var svc corev1.Service
		var es discoveryv1.EndpointSlice
		if json.Unmarshal(svcJSON, &svc) != nil || json.Unmarshal(esJSON, &es) != nil {
			return
		}
		tr := proxier.NewTracker(proxier.TrackerConfig{Node: proxier.Node{Name: "node-a", Zone: "z"}})
		tr.SetService(&svc)
		tr.SetEndpointSlice(&es)
		d := tr.Delta()
		for _, sp := range d.Update {
			checkServicePort(t, sp)
		}
		if tr.SetService(&svc) || tr.SetEndpointSlice(&es) || !tr.Delta().Empty() {
			t.Error("the same objects again are a change")
		}
		tr.DeleteEndpointSlice(nameOf(&es))
		tr.DeleteService(nameOf(&svc))
		tr.Delta()
		if st := tr.State(); len(st.Ports) > 0 {
			t.Errorf("left over: %v", st.Ports)
		}
	})
}

func checkServicePort(t *testing.T, sp *proxier.ServicePort) {
	t.Helper()
	if len(sp.Frontends) == 0 {
		t.Errorf("%v has no frontend", sp)
	}
	for _, f := range sp.Frontends {
		if (f.Kind == proxier.NodePort) == f.Addr.IsValid() || f.Port == 0 || f.Addr.IsValid() && proxier.FamilyOf(f.Addr) != sp.Key.Family {
			t.Errorf("%v has frontend %v", sp, f)
		}
	}
	for _, list := range [][]proxier.Endpoint{sp.Cluster, sp.Local} {
		for i, e := range list {
			if proxier.FamilyOf(e.Addr.Addr()) != sp.Key.Family || e.Addr.Port() == 0 || e.Addr.Addr().Is4In6() ||
				i > 0 && list[i-1].Addr.Compare(e.Addr) >= 0 {
				t.Errorf("%v has endpoint %v", sp, e)
			}
		}
	}
	if !slices.IsSortedFunc(sp.SourceRanges, func(a, b netip.Prefix) int { return a.Compare(b) }) {
		t.Errorf("%v has unsorted source ranges", sp)
	}
}
