//go:build linux

package nftables

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

// oddObjects are what one user writes, and what becomes of it.
type oddObjects struct {
	services []*corev1.Service
	slices   []*discoveryv1.EndpointSlice
	// want is who answers at which address, "dropped" and "refused" included.
	want map[string]string
	// problem is part of what the tracker reports; empty means that nothing is.
	problem string
}

func oddService(name, clusterIP string, ports int) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "odd", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(len(name)), 0))},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, ClusterIPs: []string{clusterIP}},
	}
	for i := range ports {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(80 + i)})
	}
	return svc
}

func oddSlice(name string, of *corev1.Service, addrs ...string) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: of.Namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: of.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, p := range of.Spec.Ports {
		es.Ports = append(es.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Port: new(int32(8080))})
	}
	for _, a := range addrs {
		es.Endpoints = append(es.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return es
}

const pod1, pod2 = "10.244.1.11:8080", "10.244.1.12:8080"

func oddInputs() map[string]oddObjects {
	long := strings.Repeat("n", 253)
	old, younger := oddService("old", "10.96.7.1", 1), oddService("younger", "10.96.7.1", 1)
	younger.Spec.Ports = append(younger.Spec.Ports, corev1.ServicePort{Name: "own", Port: 90})
	zeros, foreign, twice := oddService("zeros", "010.096.007.001", 1), oddService("foreign", "10.96.7.1", 1), oddService("twice", "10.96.7.1", 1)
	foreign.Spec.ClusterIPs = append(foreign.Spec.ClusterIPs, "10.96.7.2")
	foreign.Spec.ExternalIPs = []string{"not-an-address"}
	many, named := oddService("many", "10.96.7.1", 300), oddService(long, "10.96.7.1", 1)
	return map[string]oddObjects{
		"one address in two Services": {
			services: []*corev1.Service{younger, old},
			slices:   []*discoveryv1.EndpointSlice{oddSlice("old", old, "10.244.1.11"), oddSlice("younger", younger, "10.244.1.12")},
			want:     map[string]string{"10.96.7.1:80": pod1, "10.96.7.1:90": pod2},
			problem:  "belongs to Service odd/old:p0, which is older",
		},
		"addresses with leading zeros, of objects before they were refused": {
			services: []*corev1.Service{zeros},
			slices:   []*discoveryv1.EndpointSlice{oddSlice("zeros", zeros, "10.244.001.011", "nonsense")},
			want:     map[string]string{"10.96.7.1:80": pod1},
			problem:  "nonsense",
		},
		"addresses of the other family": {
			services: []*corev1.Service{foreign},
			slices:   []*discoveryv1.EndpointSlice{oddSlice("foreign", foreign, "fd00:1::12", "10.244.1.11")},
			want:     map[string]string{"10.96.7.1:80": pod1},
			problem:  "fd00:1::12 is not an IPv4 address",
		},
		"endpoints in two slices": {
			services: []*corev1.Service{twice},
			slices:   []*discoveryv1.EndpointSlice{oddSlice("twice-a", twice, "10.244.1.11"), oddSlice("twice-b", twice, "10.244.1.11")},
			want:     map[string]string{"10.96.7.1:80": pod1},
		},
		"300 ports": {
			services: []*corev1.Service{many},
			slices:   []*discoveryv1.EndpointSlice{oddSlice("many", many, "10.244.1.11")},
			want:     map[string]string{"10.96.7.1:80": pod1, "10.96.7.1:379": pod1, "10.96.7.1:380": "refused"},
		},
		"names of 253 characters": {
			services: []*corev1.Service{named},
			slices:   []*discoveryv1.EndpointSlice{oddSlice(long, named, "10.244.1.11")},
			want:     map[string]string{"10.96.7.1:80": pod1},
		},
	}
}

// Whatever somebody writes into objects, it is told, what can be served is, and the
// Services of others work.
func TestKernelOddObjectsHarmNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	web := oddService("web", "10.96.0.10", 1)
	for name, odd := range oddInputs() {
		t.Run(name, func(t *testing.T) {
			var told []string
			tracker := proxier.NewTracker(proxier.TrackerConfig{Report: func(p proxier.Problem) { told = append(told, p.String()) }})
			b := newBackend(t, w.node, Config{Local: podNet(), Problem: func(p Problem) { told = append(told, fmt.Sprint(p)) }})
			tracker.SetService(web)
			tracker.SetEndpointSlice(oddSlice("web", web, "10.244.1.12"))
			reset(t, b, tracker.State().Ports...)
			for _, svc := range odd.services {
				tracker.SetService(svc)
			}
			for _, es := range odd.slices {
				tracker.SetEndpointSlice(es)
			}
			apply(t, b, tracker.Delta())
			odd.want["10.96.0.10:80"] = pod2
			for at, want := range odd.want {
				for range 5 {
					if got := ask(t, w.client, "tcp", at).from; got != want {
						t.Errorf("%s: %s, want %s", at, got, want)
						break
					}
				}
			}
			all := strings.Join(told, "\n")
			if (all == "") != (odd.problem == "") || !strings.Contains(all, odd.problem) {
				t.Errorf("it is told %q, want %q", all, odd.problem)
			}
		})
	}
}
