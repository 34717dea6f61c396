package proxier_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	backend := &printer{flushed: make(chan struct{}), stop: stop}
	if err := serve(ctx, backend, slog.New(slog.DiscardHandler)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// reset
	// default/web:http TCP IPv4; at ClusterIP 10.96.0.10:80; to 10.244.1.5:8080(here), 10.244.2.7:8080
	// somebody flushes the rules
	// reset
	// default/web:http TCP IPv4; at ClusterIP 10.96.0.10:80; to 10.244.1.5:8080(here), 10.244.2.7:8080
}

// serve keeps a backend at what one Service asks for, until ctx ends.
func serve(ctx context.Context, backend *printer, log *slog.Logger) error {
	p, err := proxier.New(backend, proxier.Config{Node: proxier.Node{Name: "node-a"}, Log: log})
	if err != nil {
		return err
	}
	feed := p.Feed("objects")
	feed.SetService(webService())
	feed.SetEndpointSlice(webSlice())
	feed.Synced()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	g.Go(func() error { return backend.Watch(ctx, p.RequestReset) })
	return g.Wait()
}

func webService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func webSlice() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
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
	}
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

// printer is a Backend that programs nothing: it prints what is to be in force. What the
// first Reset put in force is flushed by somebody else, and the second one is the last.
type printer struct {
	resets  int
	flushed chan struct{}
	stop    func()
}

func (p *printer) Reset(_ context.Context, s *proxier.State) error {
	fmt.Fprintln(os.Stdout, "reset")
	for _, sp := range s.Ports {
		fmt.Fprintln(os.Stdout, sp)
	}
	if p.resets++; p.resets == 1 {
		fmt.Fprintln(os.Stdout, "somebody flushes the rules")
		close(p.flushed)
	} else {
		p.stop()
	}
	return nil
}

func (p *printer) Apply(_ context.Context, d proxier.Delta) error {
	fmt.Fprint(os.Stdout, d)
	return nil
}

func (p *printer) Cleanup(context.Context) error { return nil }

// Watch is what the backends of this module have beside the three methods of a Backend.
func (p *printer) Watch(ctx context.Context, drifted func()) error {
	select {
	case <-p.flushed:
		drifted()
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}
