package staticpods

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const manifestURL = "http://config.example/pods"

// webServer is the server of a URL, in the bubble of a test.
type webServer struct {
	mu     sync.Mutex
	status int
	body   string
	err    error
	hang   bool
	// asked counts requests, last is the newest.
	asked int
	last  *http.Request
}

// RoundTrip implements http.RoundTripper.
func (w *webServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.hangs() {
		<-r.Context().Done()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.last = r
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Request: r,
		Body: io.NopCloser(strings.NewReader(w.body)),
	}, nil
}

func (w *webServer) hangs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hang
}

// answer sets what the server answers from now on.
func (w *webServer) answer(body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.body, w.err, w.hang = http.StatusOK, body, nil, false
}

func (w *webServer) breaks(status int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.body, w.err = status, "", err
}

func (w *webServer) setHang() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hang = true
}

func (w *webServer) lastRequest() *http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

func (w *webServer) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// remoteBench runs a Remote in the bubble of a test.
type remoteBench struct {
	bench
	*webServer
	remote *Remote
}

func newRemoteBench(t *testing.T, cfg RemoteConfig, prepare func(*webServer)) *remoteBench {
	t.Helper()
	b := &remoteBench{bench: bench{t: t}, webServer: &webServer{status: http.StatusOK}}
	prepare(b.webServer)
	if cfg.NodeName == "" {
		cfg.NodeName = "node-a"
	}
	cfg.Client = &http.Client{Transport: b.webServer}
	var err error
	if b.remote, err = URL(manifestURL, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.remote.Run(ctx, b.take) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return b
}

// wantSet wants the set in force, and the statuses.
func (b *remoteBench) wantSet(pods []string, states ...string) {
	b.t.Helper()
	if diff := cmp.Diff(pods, b.pods()); diff != "" {
		b.t.Errorf("pods (-want +got):\n%s", diff)
	}
	var got []string
	for _, s := range b.remote.Statuses() {
		line := strings.TrimPrefix(s.Path, manifestURL) + " " + s.State.String()
		if s.Kept {
			line += " kept"
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(states, got); diff != "" {
		b.t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

// list is a PodList of pods, one to a line in JSON.
func list(pods ...string) string {
	return "apiVersion: v1\nkind: PodList\nitems:\n- " + strings.Join(pods, "\n- ") + "\n"
}

// itemOf is an item of a list.
func itemOf(name, gen string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"app","image":"i","env":[{"name":"GEN","value":"` + gen + `"}]}]}}`
}

const broken = `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"app","image":"i","imag":"j"},{"name":"app"}]}}`

func TestRemoteDeliversPodsOfAURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t, RemoteConfig{Header: http.Header{"x-key": {"secret"}, "Host": {"other.example"}}}, func(w *webServer) {
			w.answer(web("a", "1"))
		})
		synctest.Wait()
		b.wantSet([]string{"default/a-node-a GEN=1"}, " ok")
		if r := b.lastRequest(); r.Header.Get("X-Key") != "secret" || r.Host != "other.example" {
			t.Errorf("the request has X-Key %q and Host %q", r.Header.Get("X-Key"), r.Host)
		}
		pod := b.delivered()[0].Pods[0]
		if pod.Annotations[AnnotationSource] != "http" || len(pod.Spec.Tolerations) != 0 || pod.Annotations[AnnotationSeen] == "" {
			t.Errorf("annotations %v, tolerations %v", pod.Annotations, pod.Spec.Tolerations)
		}
		b.after(time.Minute)
		if n, sets := b.requests(), len(b.delivered()); n != 4 || sets != 1 {
			t.Errorf("%d requests and %d sets in a minute, want 4 and 1", n, sets)
		}
		b.answer(list(itemOf("a", "1"), itemOf("b", "1")))
		b.after(DefaultPeriod)
		b.wantSet([]string{"default/a-node-a GEN=1", "default/b-node-a GEN=1"}, " ok", "#items[0] ok", "#items[1] ok")
		b.answer(list(itemOf("b", "2")))
		b.after(DefaultPeriod)
		b.wantSet([]string{"default/b-node-a GEN=2"}, " ok", "#items[0] ok")
		b.answer("apiVersion: v1\nkind: PodList\nitems: []\n")
		b.after(DefaultPeriod)
		b.wantSet(nil, " ok")
	})
}

// TestSamePodIsTheSameFromFileAndURL: moving a manifest restarts nothing.
func TestSamePodIsTheSameFromFileAndURL(t *testing.T) {
	file, err := Decode([]byte(web("a", "1")), "node-a")
	if err != nil {
		t.Fatal(err)
	}
	a, wrong := decoder{node: "node-a", remote: true}.answer([]byte(web("a", "1")))
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if file.Pod.UID != a.items[0].pod.UID {
		t.Errorf("the UID is %s from a file, %s from a URL", file.Pod.UID, a.items[0].pod.UID)
	}
}

func TestBadAnswerKeepsTheLastSet(t *testing.T) {
	refused := errors.New("connection refused")
	tests := []struct {
		name  string
		spoil func(*webServer)
		state string
		want  string
	}{
		{"does not answer", func(w *webServer) { w.breaks(0, refused) }, " unreadable kept", "connection refused"},
		{"another status", func(w *webServer) { w.breaks(http.StatusServiceUnavailable, nil) }, " unreadable kept", `"Service Unavailable", want 200`},
		{"hangs", func(w *webServer) { w.setHang() }, " unreadable kept", "no complete answer within 10s"},
		{"empty", func(w *webServer) { w.answer("") }, " invalid kept", "answer is empty"},
		{"blank", func(w *webServer) { w.answer("\n# nothing\n") }, " invalid kept", "holds no object"},
		{"half", func(w *webServer) { w.answer(`{"apiVersion":"v1","kind":"Po`) }, " invalid kept", "not YAML or JSON"},
		{"a page", func(w *webServer) { w.answer("<html>try later</html>") }, " invalid kept", "must be a Pod or a PodList"},
		{"another kind", func(w *webServer) { w.answer("apiVersion: v1\nkind: Service\n") }, " invalid kept", `"Service"`},
		{"another version", func(w *webServer) { w.answer("apiVersion: v2\nkind: Pod\n") }, " invalid kept", `"v2"`},
		{"no list", func(w *webServer) { w.answer("apiVersion: v1\nkind: PodList\nitems: {}\n") }, " invalid kept", "is not a list"},
		{"an invalid pod", func(w *webServer) { w.answer(strings.Replace(web("a", "2"), "image: ", "imag: ", 1)) }, " invalid kept", "image: required"},
		{"a pod with a Secret", func(w *webServer) {
			w.answer(web("a", "2") + "  volumes: [{name: v, secret: {secretName: s}}]\n")
		}, " invalid kept", "static pods may not reference secrets"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newRemoteBench(t, RemoteConfig{}, func(w *webServer) { w.answer(web("a", "1")) })
				synctest.Wait()
				tt.spoil(b.webServer)
				b.after(10 * time.Minute)
				b.wantSet([]string{"default/a-node-a GEN=1"}, tt.state)
				s := b.remote.Statuses()[0]
				if !strings.Contains(s.Reason, tt.want) || s.Pod != "default/a-node-a" || s.UID == "" {
					t.Errorf("status %+v, want the reason %q", s, tt.want)
				}
				b.wantSets(1)
				if n := b.requests(); n < 20 || n > 40 { // a broken server is not asked more often
					t.Errorf("%d requests in ten minutes", n)
				}
				b.answer(web("a", "1"))
				b.after(2 * DefaultPeriod)
				b.wantSet([]string{"default/a-node-a GEN=1"}, " ok")
				b.wantSets(1)
				b.answer(web("a", "3"))
				b.after(DefaultPeriod)
				b.wantSet([]string{"default/a-node-a GEN=3"}, " ok")
			})
		})
	}
}

func (b *remoteBench) wantSets(want int) {
	b.t.Helper()
	if n := len(b.delivered()); n != want {
		b.t.Errorf("%d sets were delivered, want %d", n, want)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t, RemoteConfig{}, func(w *webServer) { w.answer(web("a", "1") + strings.Repeat("#", MaxBytes)) })
		synctest.Wait()
		b.wantSet(nil, " invalid")
		if s := b.remote.Statuses()[0]; !strings.Contains(s.Reason, "larger than 10485760 bytes") {
			t.Errorf("the reason is %q", s.Reason)
		}
	})
}

// TestNothingIsDeliveredBeforeAnAnswer: a node must not stop pods because a server is
// not up yet.
func TestNothingIsDeliveredBeforeAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t, RemoteConfig{}, func(w *webServer) { w.breaks(0, errors.New("no route to host")) })
		b.after(40 * time.Second)
		b.wantSets(0)
		b.answer(strings.Replace(web("a", "1"), "image: ", "imag: ", 1))
		b.after(DefaultPeriod)
		b.wantSets(0)
		b.wantSet(nil, " invalid")
		b.answer(web("a", "1"))
		b.after(DefaultPeriod)
		b.wantSet([]string{"default/a-node-a GEN=1"}, " ok")
	})
}

// TestServerThatComesUpIsSoonAsked: it is not there for three seconds.
func TestServerThatComesUpIsSoonAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t, RemoteConfig{}, func(w *webServer) { w.breaks(0, errors.New("no route to host")) })
		b.after(4 * time.Second)
		b.answer(web("a", "1"))
		b.after(4 * time.Second)
		b.wantSet([]string{"default/a-node-a GEN=1"}, " ok")
	})
}

// TestEmptyAnswerAtTheStartIsNoPods, as with the kubelet.
func TestEmptyAnswerAtTheStartIsNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t, RemoteConfig{}, func(*webServer) {})
		b.after(time.Minute)
		b.wantSets(1)
		b.wantSet(nil, " invalid")
	})
}

func TestInvalidItemHoldsUpNoOther(t *testing.T) {
	tests := []struct {
		name   string
		items  []string
		pods   []string
		states []string
	}{
		{"keeps its pod", []string{broken, itemOf("b", "2")}, []string{"b GEN=2", "a GEN=1"}, []string{" ok", "#items[0] invalid kept", "#items[1] ok"}},
		{"and others may leave", []string{broken}, []string{"a GEN=1"}, []string{" ok", "#items[0] invalid kept"}},
		{"is new", []string{itemOf("a", "1"), strings.Replace(broken, `"a"`, `"c"`, 1)}, []string{"a GEN=1"}, []string{" ok", "#items[0] ok", "#items[1] invalid"}},
		{
			"has no name",
			[]string{itemOf("b", "2"), `{"spec":{}}`},
			[]string{"b GEN=2", "a GEN=1"},
			[]string{" ok", "#items[0] ok", "#items[1] invalid", "#default/a-node-a invalid kept"},
		},
		{
			"is null",
			[]string{"null", itemOf("a", "2")},
			[]string{"a GEN=2", "b GEN=1"},
			[]string{" ok", "#items[0] invalid", "#items[1] ok", "#default/b-node-a invalid kept"},
		},
		{"is twice", []string{itemOf("a", "1"), itemOf("a", "2"), itemOf("b", "1")}, []string{"a GEN=1", "b GEN=1"}, []string{" ok", "#items[0] ok", "#items[1] duplicate", "#items[2] ok"}},
		{
			"is a Service",
			[]string{`{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"}}`, itemOf("b", "1")},
			[]string{"b GEN=1", "a GEN=1"},
			[]string{" ok", "#items[0] invalid kept", "#items[1] ok"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newRemoteBench(t, RemoteConfig{}, func(w *webServer) { w.answer(list(itemOf("a", "1"), itemOf("b", "1"))) })
				synctest.Wait()
				b.answer(list(tt.items...))
				b.after(DefaultPeriod)
				var pods []string
				for _, pod := range tt.pods {
					pods = append(pods, "default/"+strings.Replace(pod, " ", "-node-a ", 1))
				}
				b.wantSet(pods, tt.states...)
				b.breaks(http.StatusBadGateway, nil)
				b.after(time.Minute)
				if got := b.pods(); !cmp.Equal(pods, got) {
					t.Errorf("pods after a failure %q, want %q", got, pods)
				}
				b.answer(list(itemOf("a", "1"), itemOf("b", "1")))
				b.after(DefaultPeriod)
				b.wantSet([]string{"default/a-node-a GEN=1", "default/b-node-a GEN=1"}, " ok", "#items[0] ok", "#items[1] ok")
			})
		})
	}
}

func TestProblemsOfAnItemHaveTheLinesOfTheAnswer(t *testing.T) {
	a, wrong := decoder{node: "node-a", remote: true}.answer([]byte("apiVersion: v1\nkind: PodList\nitems:\n- " + itemOf("a", "1") +
		"\n- metadata:\n    name: b\n  spec:\n    containers:\n    - name: app\n      imag: x\n---\nkind: Pod\n"))
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	got := []string{}
	for _, p := range a.items[1].problems {
		got = append(got, p.String())
	}
	if diff := cmp.Diff([]string{
		"line 9: spec.containers[0].image: required",
		`line 10: spec.containers[0].imag: unknown field; did you mean "image"?`,
	}, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if len(a.warnings) != 1 || a.warnings[0].Line != 12 {
		t.Errorf("warnings %v, want one for the document at line 12", a.warnings)
	}
}

func TestRemoteAdoptsAndKeepsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := RemoteConfig{Config: Config{AdoptUID: func(*corev1.Pod) (types.UID, bool) { return "theirs", true }}}
		b := newRemoteBench(t, cfg, func(w *webServer) { w.answer(list(itemOf("a", "1"))) })
		synctest.Wait()
		first := b.delivered()[0].Pods[0]
		if first.UID != "theirs" {
			t.Errorf("the UID is %s, want that of the pod that runs", first.UID)
		}
		b.answer("# reworded\n" + list(itemOf("a", "1")))
		b.after(DefaultPeriod)
		b.wantSets(1)
	})
}

// TestRepeatedFailureIsLoggedOnce, not at each request.
func TestRepeatedFailureIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := RemoteConfig{Config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		b := newRemoteBench(t, cfg, func(w *webServer) { w.breaks(http.StatusNotFound, nil) })
		b.after(time.Hour)
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, log.String())
		}
	})
}

func TestURLSaysWhatIsWrong(t *testing.T) {
	for address, want := range map[string]string{
		"":                        `begins with "", want http`,
		"/etc/manifests":          "want http:// or https://",
		"ftp://a/b":               `begins with "ftp"`,
		"http:///b":               "names no host",
		"http://user:secret@a:b/": "is none",
	} {
		_, err := URL(address, RemoteConfig{Config: Config{NodeName: "node-a"}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want %q", address, err, want)
		}
	}
	if _, err := URL(manifestURL, RemoteConfig{}); err == nil {
		t.Error("no node name is no error")
	}
}

// TestRemoteOverTheNetwork asks real servers.
func TestRemoteOverTheNetwork(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/pods", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/short":
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, web("a", "1"))
		default:
			_, _ = io.WriteString(w, web("a", r.Header.Get("X-Gen")))
		}
	}))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/pods", http.StatusFound))
	t.Cleanup(secure.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	downgrade := secure.Client()
	downgrade.CheckRedirect = newFetcher().CheckRedirect
	tests := []struct {
		name, url string
		client    *http.Client
		want      string // in the error; empty: there are pods
	}{
		{name: "an answer", url: plain.URL + "/pods"},
		{name: "a redirect", url: plain.URL + "/moved"},
		{name: "redirects without end", url: plain.URL + "/loop", want: "more than 10 redirects"},
		{name: "cut short", url: plain.URL + "/short", want: "unexpected EOF"},
		{name: "nobody listens", url: closed.URL, want: "connection refused"},
		{name: "from https to http", url: secure.URL, client: downgrade, want: "a redirect leads from https to http://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := tt.client
			if client == nil {
				client = newFetcher()
			}
			client.Transport = transportOf(t, client)
			body, err := fetch(t.Context(), client, tt.url, http.Header{"x-gen": {"7"}})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || !strings.Contains(string(body), `value: "7"`) {
				t.Errorf("got %q, %v", body, err)
			}
		})
	}
}

// transportOf returns a transport whose connections end with the test.
func transportOf(t *testing.T, client *http.Client) http.RoundTripper {
	t.Helper()
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		transport = &http.Transport{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// FuzzAnswer: whatever a server answers, it is pods that could run or problems.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(web("a", "1")))
	f.Add([]byte(list(itemOf("a", "1"), broken, "null", "7", "[]", `{"metadata":[]}`)))
	f.Add([]byte("apiVersion: v1\nkind: PodList\nitems: {}\n---\n"))
	f.Add([]byte("apiVersion: v1\nkind: PodList\nitems: [&a {metadata: {name: a}}, *a, {<<: *a}]\n"))
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"spec":{}}],"items":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, wrong := decoder{node: "node-a", remote: true}.answer(data)
		if len(wrong) > 0 && len(a.items) > 0 {
			t.Errorf("%d items beside %v", len(a.items), wrong)
		}
		for _, i := range a.items {
			switch {
			case i.pod == nil && len(i.problems) == 0:
				t.Errorf("%s is neither a pod nor a problem", i.path)
			case i.pod != nil && fullName(i.pod) != i.name:
				t.Errorf("%s has the name %s, and its pod %s", i.path, i.name, fullName(i.pod))
			}
		}
	})
}
