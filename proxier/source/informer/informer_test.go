package informer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// recorder is a Sink that notes calls as lines.
type recorder struct {
	lines chan string
}

func (r *recorder) say(format string, args ...any) { r.lines <- fmt.Sprintf(format, args...) }

func (r *recorder) SetService(svc *corev1.Service) { r.say("service %s/%s", svc.Namespace, svc.Name) }

func (r *recorder) DeleteService(n types.NamespacedName) {
	r.say("no service %s", n)
}

func (r *recorder) SetEndpointSlice(es *discoveryv1.EndpointSlice) {
	r.say("slice %s/%s", es.Namespace, es.Name)
}
func (r *recorder) DeleteEndpointSlice(n types.NamespacedName) { r.say("no slice %s", n) }
func (r *recorder) Synced()                                    { r.say("synced") }

// wait reads lines until each of want was seen, in whatever order.
func (r *recorder) wait(t *testing.T, want ...string) {
	t.Helper()
	missing := make(map[string]int)
	for _, w := range want {
		missing[w]++
	}
	deadline := time.After(10 * time.Second)
	for len(missing) > 0 {
		select {
		case line := <-r.lines:
			if missing[line] == 0 {
				t.Errorf("unexpected: %s", line)
				continue
			}
			if missing[line]--; missing[line] == 0 {
				delete(missing, line)
			}
		case <-deadline:
			t.Fatalf("not told: %v", missing)
		}
	}
}

// server is an API server whose answers a test scripts by resource: each request
// of a watch gets the next stream.
type server struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	streams  map[string][]string
	lists    map[string]string
	requests []string
	noStream bool
	// onList is told of each list before the next; nil is off.
	onList func(request string)
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{streams: map[string][]string{}, lists: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	initial := q.Get("sendInitialEvents") == "true"
	s.requests = append(s.requests, fmt.Sprintf("%s watch=%s initial=%v version=%q match=%q continue=%q",
		resource, q.Get("watch"), initial, q.Get("resourceVersion"), q.Get("resourceVersionMatch"), q.Get("continue")))
	if q.Get("watch") == "" {
		request := resource + q.Get("continue")
		body := s.lists[request]
		if s.onList != nil {
			s.onList(request)
		}
		s.mu.Unlock()
		if strings.Contains(body, `"code":504`) {
			w.WriteHeader(http.StatusGatewayTimeout)
		}
		fmt.Fprint(w, body)
		return
	}
	if initial && s.noStream {
		s.mu.Unlock()
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`)
		return
	}
	stream, hold := "", true
	if all := s.streams[resource]; len(all) > 0 {
		stream, s.streams[resource] = all[0], all[1:]
		hold = len(all) == 1
	}
	s.mu.Unlock()
	fmt.Fprint(w, stream)
	w.(http.Flusher).Flush()
	if hold {
		<-r.Context().Done()
	}
}

func event(typ, apiVersion, kind, name, version string) string {
	return annotated(typ, [2]string{apiVersion, kind}, name, version)
}

func annotated(typ string, of [2]string, name, version string, annotations ...string) string {
	apiVersion, kind := of[0], of[1]
	meta := map[string]any{"name": name, "resourceVersion": version}
	if kind == "Service" || kind == "EndpointSlice" {
		meta["namespace"] = "ns"
	}
	if len(annotations) > 0 {
		meta["annotations"] = map[string]string{annotations[0]: "true"}
	}
	object := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	if kind == "ServiceCIDR" {
		object["spec"] = map[string]any{"cidrs": []string{name}}
	}
	line, _ := json.Marshal(map[string]any{"type": typ, "object": object})
	return string(line) + "\n"
}

func svc(typ, name, version string) string { return event(typ, "v1", "Service", name, version) }

func end(apiVersion, kind, version string) string {
	return annotated("BOOKMARK", [2]string{apiVersion, kind}, "", version, initialEnd)
}

const (
	discovery  = "discovery.k8s.io/v1"
	networking = "networking.k8s.io/v1"
	gone       = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}` + "\n"
)

func run(t *testing.T, s *server, cfg Config) *recorder {
	t.Helper()
	sink := &recorder{lines: make(chan string, 100)}
	source, err := New(&rest.Config{Host: s.URL, QPS: -1}, sink, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return sink
}

func TestSourceStreamsTheFirstState(t *testing.T) {
	s := newServer(t)
	s.streams["services"] = []string{svc("ADDED", "a", "1") + svc("ADDED", "b", "2") + end("v1", "Service", "5") + svc("DELETED", "a", "6")}
	s.streams["endpointslices"] = []string{event("ADDED", discovery, "EndpointSlice", "a-1", "3") + end(discovery, "EndpointSlice", "5")}
	sink := run(t, s, Config{})
	sink.wait(t, "service ns/a", "service ns/b", "slice ns/a-1", "synced", "no service ns/a")
}

func TestSourceForgetsWhatWentWhileTheServerForgot(t *testing.T) {
	s := newServer(t)
	s.streams["services"] = []string{
		svc("ADDED", "a", "1") + svc("ADDED", "b", "2") + end("v1", "Service", "5"),
		gone,
		svc("ADDED", "b", "2") + svc("ADDED", "c", "8") + end("v1", "Service", "9"),
	}
	s.streams["endpointslices"] = []string{end(discovery, "EndpointSlice", "5")}
	sink := run(t, s, Config{})
	sink.wait(t, "service ns/a", "service ns/b", "synced", "service ns/b", "service ns/c", "no service ns/a")
	s.wantRequests(t, "services",
		`watch=true initial=true version="" match="NotOlderThan" continue=""`,
		`watch=true initial=false version="5" match="" continue=""`,
		`watch=true initial=true version="" match="NotOlderThan" continue=""`)
}

// wantRequests compares the requests for a resource so far, but for a last watch that
// may or may not have begun.
func (s *server) wantRequests(t *testing.T, resource string, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, r := range s.requests {
		if line, ok := strings.CutPrefix(r, resource+" "); ok {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("requests for %s (-want +got):\n%s", resource, diff)
	}
}

// A server whose memory lags behind the one before must not have its older state
// delivered in the place of a newer one: lists after the first ask for one that is not
// older, and where no server has come so far, for that of the storage.
func TestSourceDoesNotGoBackInTime(t *testing.T) {
	const list = `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[{"metadata":{"namespace":"ns","name":%q}}]}`
	const tooLarge = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Too large resource version: 8, current: 6","reason":"Timeout",` +
		`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":0},"code":504}`
	s := newServer(t)
	s.noStream = true
	s.lists["services"] = fmt.Sprintf(list, "7", "a")
	s.lists["endpointslices"] = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"7"}}`
	s.streams["services"] = []string{svc("MODIFIED", "a", "8") + gone, ""}
	s.onList = func(request string) {
		switch s.lists[request] {
		case fmt.Sprintf(list, "7", "a"):
			s.lists[request] = tooLarge
		case tooLarge:
			s.lists[request] = fmt.Sprintf(list, "9", "b")
		}
	}
	run(t, s, Config{}).wait(t, "service ns/a", "synced", "service ns/a", "service ns/b", "no service ns/a")
	s.wantRequests(t, "services",
		`watch=true initial=true version="" match="NotOlderThan" continue=""`,
		`watch= initial=false version="0" match="" continue=""`,
		`watch=true initial=false version="7" match="" continue=""`,
		`watch= initial=false version="8" match="NotOlderThan" continue=""`,
		`watch= initial=false version="" match="" continue=""`)
}

// What a first state that broke off has told, and what is gone in the next, was told
// all the same.
func TestSourceForgetsWhatABrokenFirstStateTold(t *testing.T) {
	tests := map[string]func(s *server){
		"stream": func(s *server) {
			s.streams["services"] = []string{
				svc("ADDED", "a", "1") + svc("ADDED", "b", "2"),
				svc("ADDED", "b", "2") + end("v1", "Service", "9"),
			}
		},
		"list": func(s *server) {
			s.noStream = true
			const list = `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"%s},"items":[{"metadata":{"namespace":"ns","name":%q}}]}`
			s.lists["services"] = fmt.Sprintf(list, `,"continue":"more"`, "a") // and no second page
			s.lists["endpointslices"] = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"7"}}`
			s.onList = func(request string) {
				if request == "servicesmore" {
					s.lists["services"] = fmt.Sprintf(list, "", "b")
				}
			}
		},
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.streams["endpointslices"] = []string{end(discovery, "EndpointSlice", "5")}
			script(s)
			sink := run(t, s, Config{})
			want := []string{"service ns/a", "service ns/b", "no service ns/a", "synced"}
			if name == "stream" {
				want = append(want, "service ns/b")
			}
			sink.wait(t, want...)
		})
	}
}

func TestSourceListsPagesWhereNothingStreams(t *testing.T) {
	s := newServer(t)
	s.noStream = true
	s.lists["services"] = `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"more"},"items":[{"metadata":{"namespace":"ns","name":"a"}}]}`
	s.lists["servicesmore"] = `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"namespace":"ns","name":"b"}}]}`
	s.lists["endpointslices"] = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"7"}}`
	s.streams["services"] = []string{svc("MODIFIED", "b", "8")}
	sink := run(t, s, Config{})
	sink.wait(t, "service ns/a", "service ns/b", "synced", "service ns/b")
}

func TestSourceListsWhereTheStorageCannotStream(t *testing.T) {
	s := newServer(t)
	s.lists["services"] = `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"namespace":"ns","name":"a"}}]}`
	s.lists["endpointslices"] = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"7"}}`
	cannot := strings.Replace(gone, `"reason":"Expired","code":410`, `"code":500,"message":"the required storage feature is disabled"`, 1)
	s.streams["services"], s.streams["endpointslices"] = []string{cannot, ""}, []string{cannot, ""}
	run(t, s, Config{}).wait(t, "service ns/a", "synced")
}

func TestSourceTellsOfNodeAndRanges(t *testing.T) {
	s := newServer(t)
	s.streams["services"] = []string{end("v1", "Service", "5")}
	s.streams["endpointslices"] = []string{end(discovery, "EndpointSlice", "5")}
	s.streams["nodes"] = []string{event("ADDED", "v1", "Node", "node-a", "2") + end("v1", "Node", "5") + event("DELETED", "v1", "Node", "node-a", "6")}
	s.streams["servicecidrs"] = []string{event("ADDED", networking, "ServiceCIDR", "10.96.0.0/16", "2") +
		event("ADDED", networking, "ServiceCIDR", "10.80.0.0/16", "3") + end(networking, "ServiceCIDR", "5") +
		event("DELETED", networking, "ServiceCIDR", "10.80.0.0/16", "6")}
	lines := make(chan string, 10)
	sink := run(t, s, Config{
		NodeName: "node-a",
		OnNode:   func(n *corev1.Node) { lines <- fmt.Sprint("node ", n != nil) },
		OnServiceCIDRs: func(p []netip.Prefix) {
			lines <- fmt.Sprint("ranges ", p)
		},
	})
	sink.wait(t, "synced")
	(&recorder{lines: lines}).wait(t, "node true", "node false", "ranges [10.80.0.0/16 10.96.0.0/16]", "ranges [10.96.0.0/16]")
}

func TestSourceGoesOnWithoutOptionalResources(t *testing.T) {
	s := newServer(t)
	s.streams["services"] = []string{end("v1", "Service", "5")}
	s.streams["endpointslices"] = []string{end(discovery, "EndpointSlice", "5")}
	forbidden := strings.Replace(gone, `"reason":"Expired","code":410`, `"reason":"Forbidden","code":403`, 1)
	s.streams["servicecidrs"] = append(slices.Repeat([]string{forbidden}, 20), "")
	sink := run(t, s, Config{OnServiceCIDRs: func([]netip.Prefix) { t.Error("told of ranges") }})
	sink.wait(t, "synced")
}
