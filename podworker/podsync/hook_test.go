package podsync

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// doer answers requests and keeps them.
type doer struct {
	got    []*http.Request
	errs   []error
	events []string
}

func (d *doer) Do(req *http.Request) (*http.Response, error) {
	d.got = append(d.got, req.Clone(req.Context()))
	if n := len(d.got); n <= len(d.errs) && d.errs[n-1] != nil {
		return nil, d.errs[n-1]
	}
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
}

func (d *doer) hook() *hook {
	s := &Syncer{cfg: Config{Parts: Parts{HTTP: d}, OnEvent: func(_ *corev1.Pod, e Event) { d.events = append(d.events, e.Reason) }}}
	return &hook{
		syncer: s, pod: plainPod("web"), container: "app", id: "c1", ip: "10.88.0.2",
		ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 8081}},
	}
}

// TestHookRequests compares the requests that HTTP hooks make.
func TestHookRequests(t *testing.T) {
	tests := []struct {
		name   string
		action corev1.HTTPGetAction
		errs   []error
		want   []string
		err    string
	}{
		{name: "the pod itself", action: corev1.HTTPGetAction{Path: "/drain?now=1", Port: intstr.FromInt32(8080)}, want: []string{"GET http://10.88.0.2:8080/drain?now=1"}},
		{name: "a named port", action: corev1.HTTPGetAction{Path: "drain", Port: intstr.FromString("admin")}, want: []string{"GET http://10.88.0.2:8081/drain"}},
		{name: "a number as text", action: corev1.HTTPGetAction{Port: intstr.FromString("90")}, want: []string{"GET http://10.88.0.2:90/"}},
		{name: "another host", action: corev1.HTTPGetAction{Host: "::1", Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(1)}, want: []string{"GET https://[::1]:1/"}},
		{name: "no such port", action: corev1.HTTPGetAction{Port: intstr.FromString("web")}, err: `container app has no port "web"`},
		{name: "nobody there", action: corev1.HTTPGetAction{Port: intstr.FromInt32(1)}, errs: []error{errors.New("refused")}, want: []string{"GET http://10.88.0.2:1/"}, err: "refused"},
		{
			name: "no TLS after all", action: corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(1)}, errs: []error{http.ErrSchemeMismatch},
			want: []string{"GET https://10.88.0.2:1/", "GET http://10.88.0.2:1/"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &doer{errs: tt.errs}
			err := d.hook().run(t.Context(), &corev1.LifecycleHandler{HTTPGet: &tt.action})
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error is %v, want %q", err, tt.err)
			}
			var got []string
			for _, req := range d.got {
				got = append(got, req.Method+" "+req.URL.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHookHeaders has the user's headers replace the agent's, and no credentials go to a
// server without TLS.
func TestHookHeaders(t *testing.T) {
	d := &doer{errs: []error{http.ErrSchemeMismatch}}
	action := &corev1.HTTPGetAction{
		Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(1),
		HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "app.example"}, {Name: "accept", Value: "text/plain"}, {Name: "Authorization", Value: "secret"}},
	}
	if err := d.hook().run(t.Context(), &corev1.LifecycleHandler{HTTPGet: action}); err != nil {
		t.Fatal(err)
	}
	first, second := d.got[0], d.got[1]
	if first.Host != "app.example" || first.Header.Get("Accept") != "text/plain" || first.Header.Get("Authorization") != "secret" ||
		first.Header.Get("User-Agent") != "kube-lifecycle/1.37" {
		t.Errorf("first request is to %q with %v", first.Host, first.Header)
	}
	if second.Header.Get("Authorization") != "" || second.Header.Get("Accept") != "text/plain" {
		t.Errorf("request without TLS has %v", second.Header)
	}
	if diff := cmp.Diff([]string{"LifecycleHTTPFallback"}, d.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestHookFallbackFails has neither kind of request answered: the error is that of the
// one that was asked for, and nobody is told of a success.
func TestHookFallbackFails(t *testing.T) {
	d := &doer{errs: []error{http.ErrSchemeMismatch, errors.New("refused")}}
	action := &corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(1)}
	if err := d.hook().run(t.Context(), &corev1.LifecycleHandler{HTTPGet: action}); !errors.Is(err, http.ErrSchemeMismatch) {
		t.Errorf("error %v, want that of the first request", err)
	}
	if len(d.events) > 0 {
		t.Errorf("events %q, want none", d.events)
	}
}

// TestHookReach has hooks that name a host reach what the node lets them reach, and no more;
// the pod itself is not asked about.
func TestHookReach(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	port := intstr.FromInt32(int32(netip.MustParseAddrPort(server.Listener.Addr().String()).Port()))
	for _, tt := range []struct {
		name, host string
		reach      error
		want       string
	}{
		{name: "a host that is denied", host: "127.0.0.1", reach: errors.New("the node's settings"), want: "hooks may not connect to this address: the node's settings"},
		{name: "a name of it", host: "localhost", reach: errors.New("the node's settings"), want: "hooks may not connect to this address: the node's settings"},
		{name: "a host that is allowed", host: "127.0.0.1"},
		{name: "the pod itself", reach: errors.New("the node's settings")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := New(struct{ Runtime }{}, Config{Node: podspec.Node{Instance: "i"}, Parts: Parts{Reach: func(netip.Addr) error { return tt.reach }}})
			if err != nil {
				t.Fatal(err)
			}
			h := &hook{syncer: s, pod: plainPod("web"), container: "app", id: "c1", ip: "127.0.0.1"}
			asked.Store(0)
			err = h.run(t.Context(), &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: tt.host, Port: port}})
			if tt.want == "" && (err != nil || asked.Load() != 1) {
				t.Errorf("the server was asked %d times: %v", asked.Load(), err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || asked.Load() != 0) {
				t.Errorf("the server was asked %d times, the error is %v, want %q", asked.Load(), err, tt.want)
			}
		})
	}
}

// TestHookClientStaysAtItsHost follows a redirect within a host and none out of it.
func TestHookClientStaysAtItsHost(t *testing.T) {
	visited := []string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visited = append(visited, r.URL.Path)
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, "/next", http.StatusFound)
		case "/next":
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		}
	}))
	defer server.Close()
	resp, err := hookClient(nil).Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if diff := cmp.Diff([]string{"/", "/next"}, visited); diff != "" || resp.StatusCode != http.StatusFound {
		t.Errorf("visited (-want +got):\n%s, status %d", diff, resp.StatusCode)
	}
}

func TestOtherHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&doer{}).hook()
		began := time.Now()
		if err := h.run(t.Context(), &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 7}}); err != nil || time.Since(began) != 7*time.Second {
			t.Errorf("sleep took %s (%v), want 7s", time.Since(began), err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.run(short, &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 7}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sleep with a shorter limit: %v", err)
		}
		for name, bad := range map[string]corev1.LifecycleHandler{"tcp": {TCPSocket: &corev1.TCPSocketAction{}}, "none": {}} {
			if err := h.run(t.Context(), &bad); err == nil {
				t.Errorf("%s: a hook that cannot be run succeeds", name)
			}
		}
		h.ip = ""
		if err := h.run(t.Context(), &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(1)}}); err == nil {
			t.Error("a request to a pod without address succeeds")
		}
	})
}
