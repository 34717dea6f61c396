package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime/server/certs"
)

// pairFor returns a pair in memory and the pool that trusts it.
func pairFor(t *testing.T, host string) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	cert, key := selfSigned(t, host)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	return &pair, pool
}

// serve serves h with a TLS configuration until the test ends, and returns the address.
func serve(t *testing.T, config *tls.Config, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(tls.NewListener(l, config)) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// state returns what a client and the server have agreed on.
func state(t *testing.T, addr string, config *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", addr, config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.ConnectionState(), nil
}

// What a client can agree on with the server, for each oldest version of the
// configuration and each suite that crypto/tls has.
func TestVersionsAndSuites(t *testing.T) {
	pair, pool := pairFor(t, "node-a")
	all := slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites())
	var ids []uint16
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	tests := []struct {
		name     string
		version  string
		suites   []string
		versions []uint16
		// taken are the suites below TLS 1.3 that the server takes.
		taken []string
		proto string
	}{
		{
			name:     "by default",
			versions: []uint16{tls.VersionTLS12, tls.VersionTLS13},
			taken: []string{
				"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
				"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
			},
			proto: "h2",
		},
		{name: "only TLS 1.3", version: "VersionTLS13", versions: []uint16{tls.VersionTLS13}, proto: "h2"},
		{
			name: "from TLS 1.0 on", version: "VersionTLS10",
			suites:   []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"},
			versions: []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13},
			taken:    []string{"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
			proto:    "h2",
		},
		{
			name:     "one suite, by its old name, that HTTP/2 cannot live with alone",
			suites:   []string{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"},
			versions: []uint16{tls.VersionTLS12, tls.VersionTLS13},
			taken:    []string{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"},
			proto:    "http/1.1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			version, err := certs.Version(tt.version)
			if err != nil {
				t.Fatal(err)
			}
			suites, _, err := certs.CipherSuites(tt.suites)
			if err != nil {
				t.Fatal(err)
			}
			addr := serve(t, certs.Server(certs.Config{
				Certificate: func() *tls.Certificate { return pair }, MinVersion: version, CipherSuites: suites,
			}), http.NotFoundHandler())
			var versions []uint16
			for v := uint16(tls.VersionTLS10); v <= tls.VersionTLS13; v++ {
				if _, err := state(t, addr, &tls.Config{RootCAs: pool, ServerName: "node-a", MinVersion: v, MaxVersion: v, CipherSuites: ids}); err == nil {
					versions = append(versions, v)
				}
			}
			if diff := cmp.Diff(tt.versions, versions); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			var taken []string
			for _, s := range all {
				c := &tls.Config{RootCAs: pool, ServerName: "node-a", MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{s.ID}}
				if got, err := state(t, addr, c); err == nil && got.CipherSuite == s.ID {
					taken = append(taken, s.Name)
				}
			}
			slices.Sort(taken)
			if diff := cmp.Diff(tt.taken, taken); diff != "" {
				t.Errorf("suites (-want +got):\n%s", diff)
			}
			got, err := state(t, addr, &tls.Config{RootCAs: pool, ServerName: "node-a", NextProtos: []string{"h2", "http/1.1"}})
			if err != nil || got.NegotiatedProtocol != tt.proto {
				t.Errorf("the protocol is %q (%v), want %q", got.NegotiatedProtocol, err, tt.proto)
			}
		})
	}
}

// A client with any certificate gets through, one without, too; whose certificate it is
// does not matter yet.
func TestClientsAreAskedAndNotJudged(t *testing.T) {
	pair, pool := pairFor(t, "node-a")
	mine, authorities := pairFor(t, "client")
	var asked atomic.Pointer[x509.CertPool]
	asked.Store(authorities)
	config := certs.Server(certs.Config{Certificate: func() *tls.Certificate { return pair }, ClientCAs: asked.Load})
	addr := serve(t, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.TLS.PeerCertificates))
	}))
	get := func(config *tls.Config) string {
		t.Helper()
		config.RootCAs, config.ServerName = pool, "node-a"
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		resp, err := client.Get("https://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if got := get(&tls.Config{}); got != "0" {
		t.Errorf("without a certificate the server saw %s", got)
	}
	forced := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return mine, nil }
	if got := get(&tls.Config{GetClientCertificate: forced}); got != "1" {
		t.Errorf("with a certificate the server saw %s", got)
	}
	// A client that looks at the authorities chooses by those of the moment.
	_, others := pairFor(t, "others")
	for _, step := range []struct {
		pool *x509.CertPool
		want string
	}{{authorities, "1"}, {others, "0"}, {authorities, "1"}} {
		asked.Store(step.pool)
		if got := get(&tls.Config{Certificates: []tls.Certificate{*mine}}); got != step.want {
			t.Errorf("the server saw %s certificates, want %s", got, step.want)
		}
	}
}

// Without a certificate of the server, clients are turned away and the server lives.
func TestNoCertificateYet(t *testing.T) {
	pair, pool := pairFor(t, "node-a")
	var current atomic.Pointer[tls.Certificate]
	addr := serve(t, certs.Server(certs.Config{Certificate: current.Load}), http.NotFoundHandler())
	client := &tls.Config{RootCAs: pool, ServerName: "node-a"}
	if _, err := state(t, addr, client); err == nil {
		t.Error("a handshake succeeded without a certificate")
	}
	current.Store(pair)
	if _, err := state(t, addr, client); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
}

func TestNames(t *testing.T) {
	if _, err := certs.Version("TLS12"); err == nil {
		t.Error("TLS12 is taken for a version")
	}
	_, insecure, err := certs.CipherSuites([]string{"TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA"})
	if diff := cmp.Diff([]string{"TLS_RSA_WITH_RC4_128_SHA"}, insecure); err != nil || diff != "" {
		t.Errorf("insecure suites (%v) (-want +got):\n%s", err, diff)
	}
	for _, name := range []string{"", "TLS_RSA", "TLS_CHACHA20_POLY1305", "tls_aes_128_gcm_sha256"} {
		if _, _, err := certs.CipherSuites([]string{name}); err == nil {
			t.Errorf("%q is taken for a cipher suite", name)
		}
	}
}
