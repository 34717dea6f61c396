package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// What follows answers the suite in our kubelet's place, which has no server for the API
// server yet. Each part goes when the kubelet has what it replaces.

// securePort is where the API server asks a kubelet, at the node's address; see
// https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/.
const securePort = "0.0.0.0:10250"

// surface answers for our kubelet what the API server asks at its port: for its
// configuration, and for logs.
type surface struct{ *httptest.Server }

// listenFunc listens where the kubelet runs.
type listenFunc func(ctx context.Context, network, address string) (net.Listener, error)

// serveSurface serves until it is closed. config is the file with the kubelet's
// configuration, which is read for each request, logs are those of its pods.
func serveSurface(ctx context.Context, listen listenFunc, logs podLogs, config func() string) (*surface, error) {
	secure, err := listen(ctx, "tcp", securePort)
	if err != nil {
		return nil, fmt.Errorf("serve our kubelet's configuration: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", logs)
	mux.HandleFunc("GET /configz", func(w http.ResponseWriter, _ *http.Request) {
		text, err := configz(config())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	})
	s := &surface{&httptest.Server{Listener: secure, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}}
	s.StartTLS()
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
