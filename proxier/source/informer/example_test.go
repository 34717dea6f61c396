package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/proxier/source/informer"
)

// names prints what it is told, and ends when it knows all.
type names struct{ done func() }

func (n *names) SetService(svc *corev1.Service)                    { fmt.Println("service", svc.Name) }
func (n *names) DeleteService(types.NamespacedName)                {}
func (n *names) SetEndpointSlice(slice *discoveryv1.EndpointSlice) {}
func (n *names) DeleteEndpointSlice(types.NamespacedName)          {}
func (n *names) Synced()                                           { n.done() }

func Example() {
	// An API server with one Service.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, version := "Service", "v1"
		if strings.HasSuffix(r.URL.Path, "endpointslices") {
			kind, version = "EndpointSlice", "discovery.k8s.io/v1"
		}
		w.Header().Set("Content-Type", "application/json")
		if kind == "Service" {
			fmt.Fprintln(w, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}}}`)
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", version, kind)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	sink := &names{done: cancel}
	s, err := informer.New(&rest.Config{Host: server.URL}, sink, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Run(ctx)
	fmt.Println(err)
	// Output:
	// service web
	// <nil>
}
