package informer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// answers is an API server in memory, which can live in a bubble of synctest: it returns the
// status of an answer for a resource, at a time since its start; 0 refuses the connection.
type answers struct {
	begin time.Time
	of    func(resource string, since time.Duration) int
}

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	status := a.of(resource, time.Since(a.begin))
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	answer := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if status != http.StatusOK {
		reason := map[int]string{403: "Forbidden", 404: "NotFound", 500: "InternalError"}[status]
		answer.Body = io.NopCloser(strings.NewReader(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","message":"no"}`))
		return answer, nil
	}
	if r.URL.Query().Get("watch") == "" {
		// What could not be streamed at first.
		if resource != "nodes" {
			return nil, errors.New("connection refused")
		}
		answer.Body = io.NopCloser(strings.NewReader(
			`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"node-a"}}]}`))
		return answer, nil
	}
	stream := map[string]string{
		"services":       end("v1", "Service", "5"),
		"endpointslices": end(discovery, "EndpointSlice", "5"),
		"nodes":          event("ADDED", "v1", "Node", "node-a", "2") + end("v1", "Node", "5"),
		"servicecidrs":   event("ADDED", networking, "ServiceCIDR", "10.96.0.0/16", "2") + end(networking, "ServiceCIDR", "5"),
	}[resource]
	body, in := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = in.CloseWithError(r.Context().Err()) })
	go func() { _, _ = io.WriteString(in, stream) }() // it ends when the body is closed
	answer.Body = body
	return answer, nil
}

// order is a Sink that notes what was told when.
type order struct {
	begin time.Time
	mu    sync.Mutex // guards what follows
	told  []string
	at    map[string]time.Duration
}

func (o *order) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, what)
	o.at[what] = time.Since(o.begin)
}

func (o *order) SetService(*corev1.Service)                  {}
func (o *order) DeleteService(types.NamespacedName)          {}
func (o *order) SetEndpointSlice(*discoveryv1.EndpointSlice) {}
func (o *order) DeleteEndpointSlice(types.NamespacedName)    {}
func (o *order) Synced()                                     { o.note("synced") }

// What the Node and the ServiceCIDRs say is known before anything is programmed, wherever it
// is to be had; and where it is not, they hold nothing up for good.
func TestOptionalResourcesAreWaitedFor(t *testing.T) {
	const up = 20 * time.Second
	optional := []string{"nodes", "servicecidrs"}
	tests := []struct {
		name string
		of   func(resource string, since time.Duration) int
		// first is what has to be told before the end of the first state, by is when that is.
		first []string
		by    time.Duration
	}{
		{
			name: "a server that comes up late", first: []string{"node", "ranges"}, by: up + 2*maxRetry,
			of: func(_ string, since time.Duration) int {
				if since < up {
					return 0
				}
				return http.StatusOK
			},
		},
		{
			name: "a server that refuses all until it knows our rights", first: []string{"node", "ranges"}, by: up + 2*maxRetry,
			of: func(_ string, since time.Duration) int {
				if since < up {
					return http.StatusForbidden
				}
				return http.StatusOK
			},
		},
		{
			name: "no right to see the Node", first: []string{"ranges"}, by: time.Second,
			of: func(resource string, _ time.Duration) int {
				if resource == "nodes" {
					return http.StatusForbidden
				}
				return http.StatusOK
			},
		},
		{
			name: "a server without ServiceCIDRs", first: []string{"node"}, by: time.Second,
			of: func(resource string, _ time.Duration) int {
				if resource == "servicecidrs" {
					return http.StatusNotFound
				}
				return http.StatusOK
			},
		},
		{
			name: "a server that fails for the Node", first: []string{"ranges"}, by: patience + time.Second,
			of: func(resource string, since time.Duration) int {
				if resource == "nodes" && since < 2*patience {
					return http.StatusInternalServerError
				}
				return http.StatusOK
			},
		},
		{
			name: "a server that is never to be had for either", by: patience + time.Second,
			of: func(resource string, _ time.Duration) int {
				if slices.Contains(optional, resource) {
					return 0
				}
				return http.StatusOK
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				sink := &order{begin: begin, at: map[string]time.Duration{}}
				source, err := New(&rest.Config{Host: "http://192.0.2.1", QPS: -1, Transport: answers{begin, tt.of}}, sink, Config{
					NodeName: "node-a",
					OnNode: func(n *corev1.Node) {
						if n != nil {
							sink.note("node")
						}
					},
					OnServiceCIDRs: func([]netip.Prefix) { sink.note("ranges") },
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				if err := source.Run(ctx); err != nil {
					t.Fatal(err)
				}
				end := slices.Index(sink.told, "synced")
				if end < 0 || sink.at["synced"] > tt.by {
					t.Fatalf("told %v at %v, want the end of the first state after %v at most", sink.told, sink.at, tt.by)
				}
				for _, what := range tt.first {
					if i := slices.Index(sink.told, what); i < 0 || i > end {
						t.Errorf("told %v, want %s before the end of the first state", sink.told, what)
					}
				}
				if strings.Contains(tt.name, "fails for the Node") && !slices.Contains(sink.told, "node") {
					t.Errorf("told %v, want the Node in the end", sink.told)
				}
			})
		})
	}
}
