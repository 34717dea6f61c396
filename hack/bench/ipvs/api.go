package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const nodeAddr = "10.0.0.2"

// api is an API server with Services, their EndpointSlices and a Node: it lists, watches,
// and forgets whatever it is told.
type api struct {
	// mu guards what follows.
	mu       sync.Mutex
	version  int
	slices   []*discoveryv1.EndpointSlice
	services []*corev1.Service
	watchers map[chan []byte]bool // of EndpointSlices
	changes  int
}

func newAPI(services, endpoints int) *api {
	a := &api{version: 10, watchers: map[chan []byte]bool{}}
	for i := range services {
		name := fmt.Sprintf("svc-%05d", i)
		ip := fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250)
		a.services = append(a.services, &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "s", ResourceVersion: "1"},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Ports:      []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
			},
		})
		slice := &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name + "-1", UID: "e", ResourceVersion: "1",
				Labels: map[string]string{discoveryv1.LabelServiceName: name},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		}
		for j := range endpoints {
			n := i*endpoints + j
			slice.Endpoints = append(slice.Endpoints, endpoint(fmt.Sprintf("10.244.%d.%d", n/250%250, 1+n%250)))
		}
		a.slices = append(a.slices, slice)
	}
	return a
}

func endpoint(addr string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: new("node-b"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
}

// change gives a Service one new endpoint in the place of its first, and returns it as the
// kernel prints it.
func (a *api) change(service int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	a.version++
	s := a.slices[service].DeepCopy()
	addr := [4]byte{10, 245, byte(a.changes / 250), byte(1 + a.changes%250)}
	s.Endpoints[0] = endpoint(net.IP(addr[:]).String())
	s.ResourceVersion = fmt.Sprint(a.version)
	a.slices[service] = s
	event := line("MODIFIED", s)
	for w := range a.watchers {
		w <- event
	}
	return fmt.Sprintf("%02X%02X%02X%02X:1F90", addr[0], addr[1], addr[2], addr[3])
}

func line(kind string, object any) []byte {
	data, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		panic(err) // of our own types
	}
	return append(data, '\n')
}

// serve answers until the function it returns is called.
func (a *api) serve(l net.Listener) (stop func()) {
	server := &http.Server{Handler: a}
	done := make(chan struct{})
	go func() {
		_ = server.Serve(l)
		close(done)
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	a.mu.Lock()
	version := fmt.Sprint(a.version)
	var objects []runtime.Object
	kind, group := "", "v1"
	switch {
	case r.Method != http.MethodGet: // events
		a.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("{}"))
		return
	case strings.HasSuffix(r.URL.Path, "/endpointslices"):
		kind, group = "EndpointSlice", "discovery.k8s.io/v1"
		for _, s := range a.slices {
			objects = append(objects, s)
		}
	case strings.HasSuffix(r.URL.Path, "/services"):
		kind = "Service"
		for _, s := range a.services {
			objects = append(objects, s)
		}
	case strings.HasSuffix(r.URL.Path, "/nodes"):
		kind = "Node"
		objects = append(objects, theNode())
	case strings.HasSuffix(r.URL.Path, "/nodes/node-a"):
		a.mu.Unlock()
		_ = json.NewEncoder(w).Encode(theNode())
		return
	case strings.HasSuffix(r.URL.Path, "/servicecidrs"):
		kind, group = "ServiceCIDR", "networking.k8s.io/v1"
	default:
		a.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.URL.Query().Get("watch") == "" {
		a.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": group, "kind": kind + "List", "metadata": map[string]string{"resourceVersion": version}, "items": objects,
		})
		return
	}
	events := make(chan []byte, 1000)
	if kind == "EndpointSlice" {
		a.watchers[events] = true
	}
	a.mu.Unlock()
	a.watch(w, r, events, watched{objects, kind, group, version})
}

type watched struct {
	objects              []runtime.Object
	kind, group, version string
}

func (a *api) watch(w http.ResponseWriter, r *http.Request, events chan []byte, of watched) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watchers, events)
	}()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range of.objects {
			_, _ = w.Write(line("ADDED", o))
		}
		_, _ = w.Write(line("BOOKMARK", map[string]any{"apiVersion": of.group, "kind": of.kind, "metadata": map[string]any{
			"resourceVersion": of.version, "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}))
	}
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-events:
			_, _ = w.Write(event)
			_ = flush.Flush()
		}
	}
}

func theNode() *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "n", ResourceVersion: "1"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddr}}},
	}
}
