package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// What follows answers the suite in our kubelet's place, which shows its pods on a unix
// socket instead of the read-only port, and its configuration nowhere. Each part goes
// when the kubelet has what it replaces.

// Ports of the kubelet, by https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/.
const (
	readOnlyPort = "127.0.0.1:10255"
	securePort   = "127.0.0.1:10250"
)

// surface answers for our kubelet what the suite asks at its ports: for pods, which it
// passes on to the kubelet's socket, and for its configuration.
type surface struct {
	plain, secure *httptest.Server
}

// listenFunc listens where the kubelet runs.
type listenFunc func(ctx context.Context, network, address string) (net.Listener, error)

// serveSurface serves until close is called. socket is the kubelet's, config the file
// with its configuration, which is read for each request.
func serveSurface(ctx context.Context, listen listenFunc, socket string, config func() string) (*surface, error) {
	plain, err := listen(ctx, "tcp", readOnlyPort)
	if err != nil {
		return nil, fmt.Errorf("serve our kubelet's pods: %w", err)
	}
	secure, err := listen(ctx, "tcp", securePort)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve our kubelet's configuration: %w", err), plain.Close())
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "kubelet"})
	proxy.Transport = &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	mux := http.NewServeMux()
	mux.Handle("GET /pods", proxy)
	mux.HandleFunc("GET /configz", func(w http.ResponseWriter, _ *http.Request) {
		text, err := configz(config())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	})
	s := &surface{
		plain:  &httptest.Server{Listener: plain, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}},
		secure: &httptest.Server{Listener: secure, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}},
	}
	s.plain.Start()
	s.secure.StartTLS()
	return s, nil
}

// configz returns a kubelet's configuration as its endpoint of this name does.
func configz(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return json.Marshal(map[string]any{"kubeletconfig": config})
}

func (s *surface) close() {
	s.plain.Close()
	s.secure.Close()
}
