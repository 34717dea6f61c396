package record_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/record"
)

// identity is a client certificate for a user, and the authority of it.
func identity(t *testing.T, server *httptest.Server) []byte {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	type object = map[string]any
	file, err := json.Marshal(object{
		"clusters": []object{{"cluster": object{"server": server.URL, "certificate-authority-data": cert}}},
		"users": []object{{"user": object{
			"client-certificate-data": cert,
			"client-key-data":         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// client returns a client that has nothing but the kubeconfig of the proxy.
func client(t *testing.T, kubeconfig []byte, socket string) (*http.Client, string) {
	t.Helper()
	var k struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := json.Unmarshal(kubeconfig, &k); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.Clusters[0].Cluster.CA)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, k.Clusters[0].Cluster.Server
}

func TestAPIServerBehindTheProxy(t *testing.T) {
	next := make(chan string)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("watch"):
			for event := range next {
				fmt.Fprintln(w, event)
				w.(http.Flusher).Flush()
			}
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusForbidden)
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "no %s for %d certificates", body, len(r.TLS.PeerCertificates))
		default:
			fmt.Fprintf(w, "%s by %d certificates", r.URL.Path, len(r.TLS.PeerCertificates))
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	var log record.Log
	api, err := record.NewAPI(identity(t, server), record.APIConfig{Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	socket := serve(t, api.Serve)
	kubeconfig, err := api.Kubeconfig(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443})
	if err != nil {
		t.Fatal(err)
	}
	c, url := client(t, kubeconfig, socket)

	for _, tt := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"GET", "/api/v1/nodes/a", "", "/api/v1/nodes/a by 1 certificates", 200},
		{"GET", "/api/v1/nodes/b", "", "/api/v1/nodes/b by 1 certificates", 200},
		{"POST", "/api/v1/nodes", "node", "no node for 1 certificates", 403},
	} {
		request, err := http.NewRequestWithContext(t.Context(), tt.method, url+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != tt.want || response.StatusCode != tt.status {
			t.Errorf("%s %s = %d %q, want %d %q", tt.method, tt.path, response.StatusCode, body, tt.status, tt.want)
		}
	}
	t.Run("events come one by one", func(t *testing.T) { checkWatch(t, c, url, next) })
	want := []string{"create nodes all", "get nodes named", "watch pods all"}
	if diff := cmp.Diff(want, log.Lines()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// checkWatch wants each event before the next one is sent.
func checkWatch(t *testing.T, c *http.Client, url string, next chan<- string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { next <- "event 0" }()
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for i := range 3 {
		if i > 0 {
			next <- fmt.Sprintf("event %d", i)
		}
		if !lines.Scan() || lines.Text() != fmt.Sprintf("event %d", i) {
			t.Fatalf("line %d = %q, %v", i, lines.Text(), lines.Err())
		}
	}
	close(next)
	if lines.Scan() {
		t.Errorf("after the end: %q", lines.Text())
	}
}

func TestNewAPIRefusesWhatItCannotUse(t *testing.T) {
	for name, file := range map[string]string{
		"no YAML":        "\t",
		"nothing":        "{}",
		"no certificate": `{"clusters":[{"cluster":{"server":"https://x"}}],"users":[{"user":{}}]}`,
	} {
		if _, err := record.NewAPI([]byte(file), record.APIConfig{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
