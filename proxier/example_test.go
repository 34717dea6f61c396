package proxier_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	p, err := proxier.New(printer{stop: cancel}, proxier.Config{Node: proxier.Node{Name: "node-a"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	feed := p.Feed("objects")
	feed.SetService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	})
	feed.SetEndpointSlice(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.1.5"}, NodeName: new("node-a")},
			{Addresses: []string{"10.244.2.7"}, NodeName: new("node-b")},
		},
	})
	feed.Synced()
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// default/web:http TCP IPv4; at ClusterIP 10.96.0.10:80; to 10.244.1.5:8080(here), 10.244.2.7:8080
}

func ExampleTracker() {
	t := proxier.NewTracker(proxier.TrackerConfig{Report: func(p proxier.Problem) { fmt.Println(p) }})
	t.SetService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.10", ExternalIPs: []string{"192.0.2.300"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	})
	fmt.Print(t.Delta())
	// Output:
	// Service default/web: spec.externalIPs[0]: "192.0.2.300" is not an IP address; the address is skipped
	// + default/web TCP IPv4; at ClusterIP 10.96.0.10:80; no endpoints
}

// printer is a Backend that programs nothing: it prints what is to be in force.
type printer struct{ stop func() }

func (p printer) Reset(_ context.Context, s *proxier.State) error {
	for _, sp := range s.Ports {
		fmt.Fprintln(os.Stdout, sp)
	}
	p.stop()
	return nil
}

func (p printer) Apply(_ context.Context, d proxier.Delta) error {
	fmt.Fprint(os.Stdout, d)
	return nil
}

func (p printer) Cleanup(context.Context) error { return nil }
