package record

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"sigs.k8s.io/yaml"
)

// APIConfig configures an API.
type APIConfig struct {
	// Log receives a line per kind of request.
	Log *Log
	// Dial connects to the API server; nil dials from here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// API is a proxy before an API server for one client: it authenticates as the client
// of a kubeconfig does, and lets everybody in who reaches it.
type API struct {
	config APIConfig
	proxy  *httputil.ReverseProxy
	cert   tls.Certificate
}

// kubeconfig is the part of a kubeconfig that is used; everything is in the file
// itself (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/).
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Cert []byte `json:"client-certificate-data"`
			Key  []byte `json:"client-key-data"`
		} `json:"user"`
	} `json:"users"`
}

// NewAPI returns a proxy to the server of a kubeconfig, as its user. The kubeconfig
// has one cluster and one user with a certificate.
func NewAPI(file []byte, cfg APIConfig) (*API, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(file, &k); err != nil {
		return nil, fmt.Errorf("record: read kubeconfig: %w", err)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return nil, fmt.Errorf("record: the kubeconfig has %d clusters and %d users, want 1 and 1", len(k.Clusters), len(k.Users))
	}
	server, err := url.Parse(k.Clusters[0].Cluster.Server)
	if err != nil {
		return nil, fmt.Errorf("record: server of the kubeconfig: %w", err)
	}
	client, err := tls.X509KeyPair(k.Users[0].User.Cert, k.Users[0].User.Key)
	if err != nil {
		return nil, fmt.Errorf("record: certificate of the kubeconfig's user: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(k.Clusters[0].Cluster.CA) {
		return nil, errors.New("record: the kubeconfig has no certificate authority")
	}
	a := &API{config: cfg}
	if a.cert, err = selfSigned(); err != nil {
		return nil, fmt.Errorf("record: make a certificate: %w", err)
	}
	a.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: &http.Transport{
			DialContext:       cfg.Dial,
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}},
			ForceAttemptHTTP2: true,
		},
		FlushInterval: -1, // a watch event is of use at once
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.config.Log.Add(RequestOf(r.Method, r.URL).String())
	a.proxy.ServeHTTP(w, r)
}

// Serve serves TLS on l until ctx ends, and closes it.
func (a *API) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           a,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{a.cert}},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("record: serve: %w", err)
	}
	return nil
}

// Kubeconfig returns the kubeconfig for the client: it leads to the proxy at addr.
// There is a user in it without whom the kubelet takes itself for unauthenticated;
// the proxy does not look at it.
func (a *API) Kubeconfig(addr net.Addr) ([]byte, error) {
	type object = map[string]any
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Certificate[0]})
	der, err := x509.MarshalPKCS8PrivateKey(a.cert.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("record: write kubeconfig: %w", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "proxy",
		"clusters": []object{{"name": "proxy", "cluster": object{
			"server": "https://" + addr.String(), "certificate-authority-data": cert,
		}}},
		"users":    []object{{"name": "user", "user": object{"client-certificate-data": cert, "client-key-data": key}}},
		"contexts": []object{{"name": "proxy", "context": object{"cluster": "proxy", "user": "user"}}},
	})
}

// selfSigned makes a certificate for the loopback addresses.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
