package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/runtime/server"
)

// reviews is an API server that knows the tokens admin, poor and scraper, and their
// rights: all, none, and to read metrics.
func reviews(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		switch token := review.Spec.Token; token {
		case "admin", "poor", "scraper":
			review.Status.Authenticated, review.Status.User.Username = true, token
		}
		_ = json.NewEncoder(w).Encode(review)
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		at := review.Spec.ResourceAttributes
		review.Status.Allowed = at.Name == "node-a" && at.Resource == "nodes" &&
			(review.Spec.User == "admin" || review.Spec.User == "scraper" && at.Verb == "get" && at.Subresource == "metrics")
		_ = json.NewEncoder(w).Encode(review)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// clientOf makes a certificate of a client, signed by an authority of its own, and the
// authority in PEM.
func clientOf(t *testing.T, name string) (*tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	authority, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority})
}

// gated is the HTTPS API of a node that runs nothing.
type gated struct {
	t      *testing.T
	addr   string
	routes []server.Route
	root   string
	// admin is a certificate that counts.
	admin *tls.Certificate
}

// serveGated serves the API of a node with a configuration until the test ends.
func serveGated(t *testing.T, change func(*Config)) *gated {
	t.Helper()
	a := httptest.NewServer(http.HandlerFunc(reviews))
	t.Cleanup(a.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: a.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	admin, ca := clientOf(t, "admin")
	g := &gated{t: t, root: t.TempDir(), admin: admin}
	file := filepath.Join(g.root, "ca.crt")
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	k := &kubeletconfig.KubeletConfiguration{}
	k.Authentication.X509.ClientCAFile = file
	cfg := Config{
		Kubelet: k, Name: "node-a", Root: g.root, Client: client,
		API: API{SetVerbosity: func(string) error { return nil }},
	}
	if change != nil {
		change(&cfg)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := n.openGate()
	if err != nil {
		t.Fatal(err)
	}
	api, err := n.newAPI(gate)
	if err != nil {
		t.Fatal(err)
	}
	g.routes = api.Routes()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- api.ServeTLS(ctx, l, gate.tls) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

// caller is somebody who asks.
type caller struct {
	name, token string
	cert        *tls.Certificate
}

// as returns a client of a caller. Its certificate is sent whatever authorities the server
// says it knows.
func (g *gated) as(c caller) *http.Client {
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is looked at elsewhere
	if c.cert != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	g.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// ask sends a request and returns status and body.
func (g *gated) ask(client *http.Client, c caller, method, path string) (int, string) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, "https://"+g.addr+path, http.NoBody)
	if err != nil {
		g.t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		g.t.Fatalf("%s asks %s %s: %v", c.name, method, path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		g.t.Fatalf("%s asks %s %s: %v", c.name, method, path, err)
	}
	return resp.StatusCode, string(body)
}

// everything is all that can be asked for: each route by each method that it takes, and
// what is no route.
func (g *gated) everything() (asks [][2]string) {
	parts := regexp.MustCompile(`\{[a-z]+\}`)
	for _, r := range append(g.routes, server.Route{Path: "/"}, server.Route{Path: "/no/such/thing"}) {
		methods := []string{r.Method}
		if r.Method == "" {
			methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
		}
		for _, m := range methods {
			asks = append(asks, [2]string{m, parts.ReplaceAllString(r.Path, "x")})
		}
	}
	return asks
}

// Nobody gets anything of the API, or learns what is there, without credentials that count
// and the right to it. The routes are those that the server has.
func TestEveryRouteIsProtected(t *testing.T) {
	g := serveGated(t, nil)
	asks := g.everything()
	for _, path := range []string{"/exec/x/x/x", "/containerLogs/x/x/x", "/pods", "/metrics", "/logs/", "/debug/pprof/", "/debug/flags/v", "/configz"} {
		found := false
		for _, ask := range asks {
			found = found || ask[1] == path
		}
		if !found {
			t.Fatalf("%s is not among the routes: %v", path, asks)
		}
	}
	stranger, _ := clientOf(t, "admin")
	callers := []struct {
		caller
		status int
		body   string
	}{
		{caller{name: "nobody"}, 401, "Unauthorized"},
		{caller{name: "a token of nobody", token: "made-up"}, 401, "Unauthorized"},
		{caller{name: "a certificate of another authority", cert: stranger}, 401, "Unauthorized"},
		{caller{name: "a token without rights", token: "poor"}, 403, "Forbidden (user=poor, verb="},
	}
	for _, c := range callers {
		client := g.as(c.caller)
		for _, ask := range asks {
			status, body := g.ask(client, c.caller, ask[0], ask[1])
			if ask[0] == http.MethodHead {
				body = c.body
			}
			if status != c.status || !strings.HasPrefix(body, c.body) {
				t.Errorf("%s asks %s %s: %d %.100q, want %d %s", c.name, ask[0], ask[1], status, body, c.status, c.body)
			}
		}
	}
	for _, c := range []caller{{name: "an administrator", token: "admin"}, {name: "an administrator by certificate", cert: g.admin}} {
		client := g.as(c)
		for _, ask := range asks {
			if status, body := g.ask(client, c, ask[0], ask[1]); status == http.StatusUnauthorized || status == http.StatusForbidden {
				t.Errorf("%s asks %s %s: %d %.100q", c.name, ask[0], ask[1], status, body)
			}
		}
	}
	scraper := caller{name: "a scraper", token: "scraper"}
	client := g.as(scraper)
	for path, want := range map[string]int{"/metrics": 200, "/pods": 403, "/stats/summary": 403, "/configz": 403} {
		if status, _ := g.ask(client, scraper, http.MethodGet, path); status != want {
			t.Errorf("a scraper asks for %s: %d, want %d", path, status, want)
		}
	}
}

// Without an API server nobody knows tokens and rights, and the API is closed, unless the
// configuration opens it.
func TestAPIOfANodeAlone(t *testing.T) {
	yes := true
	tests := []struct {
		name   string
		change func(*kubeletconfig.KubeletConfiguration)
		// nobody, and the administrator by certificate.
		nobody, admin int
	}{
		{"by default", func(*kubeletconfig.KubeletConfiguration) {}, 401, 403},
		{"with anonymous users", func(k *kubeletconfig.KubeletConfiguration) { k.Authentication.Anonymous.Enabled = &yes }, 403, 403},
		{"with all allowed", func(k *kubeletconfig.KubeletConfiguration) { k.Authorization.Mode = "AlwaysAllow" }, 401, 200},
		{"open", func(k *kubeletconfig.KubeletConfiguration) {
			k.Authorization.Mode, k.Authentication.Anonymous.Enabled = "AlwaysAllow", &yes
		}, 200, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := serveGated(t, func(c *Config) {
				c.Client = nil
				tt.change(c.Kubelet)
			})
			nobody, admin := caller{name: "nobody"}, caller{name: "an administrator", cert: g.admin}
			if got, _ := g.ask(g.as(nobody), nobody, "GET", "/configz"); got != tt.nobody {
				t.Errorf("nobody gets %d, want %d", got, tt.nobody)
			}
			if got, _ := g.ask(g.as(admin), admin, "GET", "/configz"); got != tt.admin {
				t.Errorf("the administrator gets %d, want %d", got, tt.admin)
			}
		})
	}
}

// What the listener speaks, as the configuration says.
func TestTLSOfTheAPI(t *testing.T) {
	handshake := func(g *gated, change func(*tls.Config)) (tls.ConnectionState, error) {
		c := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}} //nolint:gosec // it is looked at below
		change(c)
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", g.addr, c)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer conn.Close()
		return conn.ConnectionState(), nil
	}
	only := func(version uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version }
	}
	versions := func(g *gated) string {
		var spoken []string
		for v := uint16(tls.VersionTLS10); v <= tls.VersionTLS13; v++ {
			if _, err := handshake(g, only(v)); err == nil {
				spoken = append(spoken, tls.VersionName(v))
			}
		}
		return strings.Join(spoken, ", ")
	}
	g := serveGated(t, nil)
	if got, want := versions(g), "TLS 1.2, TLS 1.3"; got != want {
		t.Errorf("by default it speaks %s, want %s", got, want)
	}
	state, err := handshake(g, func(*tls.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := state.PeerCertificates[0].VerifyHostname("node-a"); err != nil || state.NegotiatedProtocol != "h2" {
		t.Errorf("the certificate is not the node's (%v), or the protocol is %q, not h2", err, state.NegotiatedProtocol)
	}
	if info, err := os.Stat(filepath.Join(g.root, "pki", "kubelet.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key of the node's own certificate: %v, %v", info, err)
	}
	g = serveGated(t, func(c *Config) { c.Kubelet.TLSMinVersion = "VersionTLS13" })
	if got, want := versions(g), "TLS 1.3"; got != want {
		t.Errorf("with tlsMinVersion VersionTLS13 it speaks %s, want %s", got, want)
	}
	g = serveGated(t, func(c *Config) { c.Kubelet.TLSCipherSuites = []string{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"} })
	state, err = handshake(g, only(tls.VersionTLS12))
	if err != nil || tls.CipherSuiteName(state.CipherSuite) != "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" || state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("with one suite: %v, %s, %s", err, tls.CipherSuiteName(state.CipherSuite), state.NegotiatedProtocol)
	}
	_, err = handshake(g, func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	})
	if err == nil {
		t.Error("a suite that is not among those of the configuration was taken")
	}
}

// What is wrong with the files and names of the configuration ends the node before it
// serves.
func TestGateErrors(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no authorities", func(c *Config) { c.Kubelet.Authentication.X509.ClientCAFile = "/nowhere" }, "clientCAFile of the configuration"},
		{"no certificate", func(c *Config) { c.Kubelet.TLSCertFile, c.Kubelet.TLSPrivateKeyFile = "/nowhere", "/nowhere" }, "serving certificate"},
		{"no version", func(c *Config) { c.Kubelet.TLSMinVersion = "1.2" }, "tlsMinVersion of the configuration"},
		{"no suite", func(c *Config) { c.Kubelet.TLSCipherSuites = []string{"AES"} }, "tlsCipherSuites of the configuration"},
		{"nobody to sign", func(c *Config) { c.Kubelet.ServerTLSBootstrap = true }, "serverTLSBootstrap of the configuration needs an API server"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Kubelet: &kubeletconfig.KubeletConfiguration{}, Name: "node-a", Root: t.TempDir()}
			tt.change(&cfg)
			n, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.openGate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
		})
	}
}
