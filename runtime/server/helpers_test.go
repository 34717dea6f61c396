package server_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/runtimetest/streaming"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// pods are the pods of a node.
type pods []*corev1.Pod

func (p pods) List(context.Context) ([]*corev1.Pod, error) { return p, nil }

func (p pods) Find(namespace, name string) (*corev1.Pod, bool) {
	for _, pod := range p {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

func (p pods) Allocated(context.Context) ([]*corev1.Pod, error) { return p, nil }

// certificate makes a certificate for servers of tests.
func certificate(tb testing.TB) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// api is a server that a test asks.
type api struct {
	tb testing.TB
	// host is its address and port.
	host   string
	client *http.Client
	// stop ends the server and waits for it.
	stop func()
}

// serve starts a server; it ends with the test, all its streams with it. protocols are those
// that it offers.
func serve(tb testing.TB, cfg server.Config, protocols ...string) *api {
	tb.Helper()
	s, err := server.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	var listen net.ListenConfig
	l, err := listen.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	c := &tls.Config{Certificates: []tls.Certificate{certificate(tb)}, NextProtos: protocols}
	go func() { ended <- s.ServeTLS(ctx, l, c) }()
	a := &api{tb: tb, host: l.Addr().String(), client: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure()}}}
	a.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("ServeTLS: %v", err)
			}
		case <-time.After(2 * bound):
			tb.Errorf("ServeTLS goes on %s after the end of its context", 2*bound)
		}
	})
	tb.Cleanup(func() {
		a.stop()
		a.client.CloseIdleConnections()
	})
	return a
}

// with is the same server for another test.
func (a *api) with(tb testing.TB) *api {
	tb.Helper()
	return &api{tb: tb, host: a.host, client: a.client, stop: a.stop}
}

func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} } //nolint:gosec // the server is the test's own

// do asks the server for a path and returns the status and the body.
func (a *api) do(method, path string, body io.Reader) (*http.Response, string) {
	a.tb.Helper()
	req, err := http.NewRequestWithContext(a.tb.Context(), method, "https://"+a.host+path, body)
	if err != nil {
		a.tb.Fatal(err)
	}
	client := *a.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		a.tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.tb.Fatal(err)
	}
	return resp, string(text)
}

// get asks with GET and wants the status.
func (a *api) get(path string, want int) string {
	a.tb.Helper()
	resp, body := a.do(http.MethodGet, path, nil)
	if resp.StatusCode != want {
		a.tb.Errorf("GET %s is %s %q, want %d", path, resp.Status, body, want)
	}
	return body
}

// node is a runtime with a pod web that has a container app.
type node struct {
	rt     *runtimetest.Server
	client *runtime.Client
	// root is the folder of all logs.
	root string
	pod  *corev1.Pod
	// sandbox is the pod's.
	sandbox string
	config  *runtimeapi.PodSandboxConfig
}

// uid is the pod's.
const uid = "0b1c"

// newNode makes a pod whose container lives like that.
func newNode(tb testing.TB, cfg runtimetest.Config, lives ...runtimetest.Life) *node {
	tb.Helper()
	n := &node{rt: runtimetest.Start(tb, cfg), root: filepath.Join(tb.TempDir(), "pods")}
	streaming.Start(tb, n.rt)
	n.client = n.rt.Client(tb)
	n.rt.SetLives("app", lives...)
	n.pod = &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web"}}}}
	n.pod.Name, n.pod.Namespace, n.pod.UID = "web", "default", uid
	folder := filepath.Join(n.root, "default_web_"+uid)
	if err := os.MkdirAll(filepath.Join(folder, "app"), 0o755); err != nil {
		tb.Fatal(err)
	}
	n.config = &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: uid}, LogDirectory: folder,
		Labels: map[string]string{
			"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": uid,
		},
	}
	var err error
	if n.sandbox, err = n.client.RunPodSandbox(tb.Context(), n.config, ""); err != nil {
		tb.Fatal(err)
	}
	n.start(tb, 0)
	return n
}

// start starts a run of the container and makes the pod's status tell of it.
func (n *node) start(tb testing.TB, attempt uint32) {
	tb.Helper()
	image := &runtimeapi.ImageSpec{Image: "web"}
	if _, err := n.client.PullImage(tb.Context(), image, nil, nil); err != nil {
		tb.Fatal(err)
	}
	labels := map[string]string{"io.kubernetes.container.name": "app"}
	maps.Copy(labels, n.config.GetLabels())
	name := "app/" + string(rune('0'+attempt)) + ".log"
	id, err := n.client.CreateContainer(tb.Context(), n.sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt}, Image: image, Labels: labels, LogPath: name,
	}, n.config)
	if err != nil {
		tb.Fatal(err)
	}
	if err := n.client.StartContainer(tb.Context(), id); err != nil {
		tb.Fatal(err)
	}
	st := corev1.ContainerStatus{Name: "app", ContainerID: "fake://" + id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	if old := n.pod.Status.ContainerStatuses; len(old) > 0 {
		st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: old[0].ContainerID}
	}
	n.pod.Status.ContainerStatuses = []corev1.ContainerStatus{st}
}

// serve starts a server of the node's.
func (n *node) serve(tb testing.TB, edit ...func(*server.Config)) *api {
	tb.Helper()
	cri, err := server.NewCRI(n.client, server.CRIConfig{LogRoot: n.root, CheckpointDir: filepath.Join(n.root, "..", "checkpoints")})
	if err != nil {
		tb.Fatal(err)
	}
	cfg := server.Config{Protect: server.Open, Pods: pods{n.pod}, Containers: cri.Containers()}
	for _, e := range edit {
		e(&cfg)
	}
	return serve(tb, cfg)
}

// until waits until ok says so.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			tb.Fatalf("waited a minute for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

var errNotYet = errors.New("the pods are not known yet")

// unknown are pods that nobody knows yet.
type unknown struct{ pods }

func (unknown) List(context.Context) ([]*corev1.Pod, error) { return nil, errNotYet }

// has reports whether text has all of the parts.
func has(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// ask asks a handler for a path as it comes over the wire; 0 for what no client can send.
func ask(h http.Handler, path string) (int, string) {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return 0, ""
	}
	w := httptest.NewRecorder()
	r := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}, Host: "node", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// netConn is embedded where another field has the name Conn.
type netConn = net.Conn

// answers is a server that answers each connection with a text and hangs up.
func answers(tb testing.TB, text string) *url.URL {
	tb.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, text) // who asked may have heard enough
			}
			c.Close()
		}
	})
	tb.Cleanup(func() { l.Close(); wg.Wait() })
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

// records is a server that answers 200.
func records(tb testing.TB, see func(*http.Request)) *url.URL {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { see(r) }))
	tb.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// upgrades is a server whose connections are taken over.
func upgrades(tb testing.TB, start func(http.Handler) *httptest.Server, h http.HandlerFunc) *url.URL {
	tb.Helper()
	var wg sync.WaitGroup
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wg.Add(1)
		defer wg.Done()
		h(w, r)
	}))
	tb.Cleanup(func() { s.Close(); wg.Wait() })
	u, err := url.Parse(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}
