package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// testPatience is for a machine with much else to do.
const testPatience = time.Minute

// eventually waits until check is content.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	end := time.Now().Add(testPatience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// run runs an identity until the test ends.
func run(t *testing.T, c *Client) {
	t.Helper()
	c.look = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.closeAll()
	})
}

// ask sends a request by a configuration and returns the answer.
func ask(t *testing.T, config *rest.Config, path string) (string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// known wants the API server to know an identity as the node.
func known(t *testing.T, config *rest.Config) {
	t.Helper()
	eventually(t, "the node is known", func() error {
		got, err := ask(t, config, "/who")
		if err == nil && !strings.HasPrefix(got, "system:node:node-a ") {
			err = errors.New("it is " + got)
		}
		return err
	})
}

func open(t *testing.T, cfg Config) *Client {
	t.Helper()
	cfg.Node = "node-a"
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A node without an identity asks for one with the credentials of the bootstrap, and a
// kubeconfig is left with which it can go on.
func TestBootstrap(t *testing.T) {
	for _, once := range []bool{false, true} {
		a, dir := newAPI(t), t.TempDir()
		bootstrap := a.kubeconfig(t, dir, "bootstrap", &clientcmdapi.AuthInfo{Token: bootstrapToken})
		cfg := Config{Kubeconfig: filepath.Join(dir, "etc", "kubelet.conf"), Bootstrap: bootstrap, Dir: filepath.Join(dir, "pki"), Once: once}
		c := open(t, cfg)
		config, err := c.Config(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t, config, "/who"); err == nil {
			t.Error("the node is known before it has asked")
		}
		run(t, c)
		known(t, config)
		requests, askers := a.requests()
		if diff := cmp.Diff([]string{"bootstrap"}, askers); diff != "" {
			t.Fatalf("who asked (-want +got):\n%s", diff)
		}
		checkClientRequest(t, requests[0])
		checkFiles(t, cfg)

		// The next start finds all it needs without the bootstrap.
		if err := os.Remove(bootstrap); err != nil {
			t.Fatal(err)
		}
		again := open(t, cfg)
		run(t, again)
		if config, err = again.Config(nil); err != nil {
			t.Fatal(err)
		}
		known(t, config)
		if _, askers := a.requests(); len(askers) != 1 {
			t.Errorf("after another start %q have asked", askers)
		}
	}
}

func checkClientRequest(t *testing.T, req *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	block, _ := pem.Decode(req.Spec.Request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := csr.Subject.String(), "CN=system:node:node-a,O=system:nodes"; got != want {
		t.Errorf("the request is for %s, want %s", got, want)
	}
	if got, want := req.Spec.SignerName, "kubernetes.io/kube-apiserver-client-kubelet"; got != want {
		t.Errorf("the signer is %s, want %s", got, want)
	}
	if diff := cmp.Diff([]certificatesv1.KeyUsage{"digital signature", "client auth"}, req.Spec.Usages); diff != "" {
		t.Errorf("usages (-want +got):\n%s", diff)
	}
}

// checkFiles looks at what a bootstrap leaves.
func checkFiles(t *testing.T, cfg Config) {
	t.Helper()
	current := filepath.Join(cfg.Dir, "kubelet-client-current.pem")
	target, err := os.Readlink(current)
	if err != nil || !strings.HasPrefix(filepath.Base(target), "kubelet-client-20") {
		t.Errorf("%s leads to %q (%v), want a file with a date", current, target, err)
	}
	for _, file := range []string{cfg.Kubeconfig, target} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", file, info, err)
		}
	}
	config, err := load(cfg.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.CertFile != current || config.KeyFile != current || config.BearerToken != "" {
		t.Errorf("the kubeconfig has certificate %s, key %s and token %q", config.CertFile, config.KeyFile, config.BearerToken)
	}
}

// A certificate of which most is over is renewed, with the certificate itself; connections
// that carry the old one end, and the next ones carry the new one.
func TestRotation(t *testing.T) {
	a, dir := newAPI(t), t.TempDir()
	pki := filepath.Join(dir, "pki")
	current := filepath.Join(pki, "kubelet-client-current.pem")
	cert, key := a.issue(t, "system:node:node-a", -time.Hour, 5*time.Minute)
	dated := filepath.Join(pki, "kubelet-client-2026-01-01-00-00-00.pem")
	if err := errors.Join(os.Mkdir(pki, 0o700), os.WriteFile(dated, slices.Concat(cert, key), 0o600), os.Symlink(dated, current)); err != nil {
		t.Fatal(err)
	}
	c := open(t, Config{
		Kubeconfig: a.kubeconfig(t, dir, "kubelet.conf", &clientcmdapi.AuthInfo{ClientCertificate: current, ClientKey: current}),
		Dir:        pki,
	})
	config, err := c.Config(nil)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	if got, err := ask(t, config, "/who"); err != nil || got != "system:node:node-a 7" {
		t.Fatalf("before the rotation the node is %q (%v)", got, err)
	}
	go func() {
		_, err := ask(t, config, "/wait")
		waits <- err
	}()
	<-a.waiting
	run(t, c)
	if err := <-waits; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the connection of the old certificate ended with: %v", err)
	}
	eventually(t, "the new certificate is used", func() error {
		got, err := ask(t, config, "/who")
		if err == nil && got != "system:node:node-a 101" {
			err = errors.New("the node is " + got)
		}
		return err
	})
	if _, askers := a.requests(); !cmp.Equal(askers, []string{"system:node:node-a"}) {
		t.Errorf("%q have asked", askers)
	}
}

// A certificate in the kubeconfig itself is replaced at once, with its own rights.
func TestCertificateInTheKubeconfig(t *testing.T) {
	a, dir := newAPI(t), t.TempDir()
	cert, key := a.issue(t, "admin", -time.Minute, time.Hour)
	c := open(t, Config{
		Kubeconfig: a.kubeconfig(t, dir, "kubelet.conf", &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}),
		Dir:        filepath.Join(dir, "pki"),
	})
	config, err := c.Config(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t, config, "/who"); err != nil || got != "admin 7" {
		t.Errorf("at first the node is %q (%v)", got, err)
	}
	run(t, c)
	known(t, config)
	if _, askers := a.requests(); !cmp.Equal(askers, []string{"admin"}) {
		t.Errorf("%q have asked", askers)
	}
}

// Whether a kubeconfig is used, or the bootstrap has to make another one.
func TestWhichIdentity(t *testing.T) {
	a := newAPI(t)
	good, goodKey := a.issue(t, "system:node:node-a", -time.Minute, time.Hour)
	old, oldKey := a.issue(t, "system:node:node-a", -time.Hour, -time.Minute)
	tests := []struct {
		name string
		info *clientcmdapi.AuthInfo
		used bool
	}{
		{"a good one", &clientcmdapi.AuthInfo{ClientCertificateData: good, ClientKeyData: goodKey}, true},
		{"one that has expired", &clientcmdapi.AuthInfo{ClientCertificateData: old, ClientKeyData: oldKey}, false},
		{"with the key of another", &clientcmdapi.AuthInfo{ClientCertificateData: good, ClientKeyData: oldKey}, false},
		{"with files that are missing", &clientcmdapi.AuthInfo{ClientCertificate: "/nowhere.crt", ClientKey: "/nowhere.key"}, false},
		{"with a token", &clientcmdapi.AuthInfo{Token: bootstrapToken}, false},
		{"with nothing", &clientcmdapi.AuthInfo{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			kubeconfig := a.kubeconfig(t, dir, "kubelet.conf", tt.info)
			before, err := os.ReadFile(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			open(t, Config{
				Kubeconfig: kubeconfig, Dir: filepath.Join(dir, "pki"),
				Bootstrap: a.kubeconfig(t, dir, "bootstrap", &clientcmdapi.AuthInfo{Token: bootstrapToken}),
			})
			after, err := os.ReadFile(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if used := string(before) == string(after); used != tt.used {
				t.Errorf("the kubeconfig is used: %t, want %t; it is now:\n%s", used, tt.used, after)
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	a, dir := newAPI(t), t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("no kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := a.kubeconfig(t, dir, "good", &clientcmdapi.AuthInfo{Token: bootstrapToken})
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no kubeconfig", Config{Dir: dir, Node: "a"}, "Config.Kubeconfig is empty"},
		{"no directory", Config{Kubeconfig: good, Node: "a"}, "Config.Dir is empty"},
		{"no node", Config{Kubeconfig: good, Dir: dir}, "Config.Node is empty"},
		{"a kubeconfig that is none", Config{Kubeconfig: bad, Dir: dir, Node: "a"}, bad},
		{"a kubeconfig that is missing", Config{Kubeconfig: filepath.Join(dir, "x"), Dir: dir, Node: "a"}, "no such file"},
		{"a bootstrap that is none", Config{Kubeconfig: filepath.Join(dir, "x"), Bootstrap: bad, Dir: dir, Node: "a"}, "bootstrap: "},
		{"a bootstrap that is missing", Config{Kubeconfig: filepath.Join(dir, "x"), Bootstrap: filepath.Join(dir, "y"), Dir: dir, Node: "a"}, "bootstrap: "},
		{"a directory that is a file", Config{Kubeconfig: good, Dir: bad, Node: "a"}, "make the directory of certificates"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Open(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("a kubeconfig was written: %v", err)
	}
}

// manager is a certificate.Manager that the test moves.
type manager struct {
	current *tls.Certificate
	healthy bool
}

func (*manager) Start()                      {}
func (*manager) Stop()                       {}
func (m *manager) Current() *tls.Certificate { return m.current }
func (m *manager) ServerHealthy() bool       { return m.healthy }

// Without a certificate that is valid, the node gives up after five minutes, if the API
// server answers.
func TestLostCertificate(t *testing.T) {
	tests := []struct {
		name    string
		healthy bool
		once    bool
		want    error
	}{
		{"the API server answers", true, false, ErrLost},
		{"the API server does not answer", false, false, nil},
		{"nobody renews", true, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Client{manager: &manager{healthy: tt.healthy}, cfg: Config{Once: tt.once}, look: lookEvery}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				if err := c.Run(ctx); !errors.Is(err, tt.want) {
					t.Errorf("the error is %v, want %v", err, tt.want)
				}
				if took := time.Since(began); tt.want != nil && (took < patience || took > patience+5*time.Second) {
					t.Errorf("it gave up after %s", took)
				}
			})
		})
	}
}

func TestRotationLooks(t *testing.T) {
	first, second := &tls.Certificate{}, &tls.Certificate{}
	start := time.Now()
	r := rotation{last: first, valid: start}
	for _, step := range []struct {
		name          string
		current       *tls.Certificate
		after         time.Duration
		changed, lost bool
	}{
		{"the same", first, time.Minute, false, false},
		{"none", nil, 2 * time.Minute, false, false},
		{"none for five minutes", nil, 6 * time.Minute, false, false},
		{"none for longer", nil, 6*time.Minute + time.Second, false, true},
		{"the same is back", first, 7 * time.Minute, false, false},
		{"none again", nil, 8 * time.Minute, false, false},
		{"another", second, 9 * time.Minute, true, false},
		{"it stays", second, 10 * time.Minute, false, false},
	} {
		changed, lost := r.look(step.current, start.Add(step.after))
		if changed != step.changed || lost != step.lost {
			t.Errorf("%s: changed %t, lost %t, want %t, %t", step.name, changed, lost, step.changed, step.lost)
		}
	}
}

// The metrics have the kubelet's names.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	c := newClientMetrics()
	c.watch(&manager{current: &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}}})
	s := newServingMetrics()
	s.watch(&manager{})
	for _, collector := range append(c.all, s.all...) {
		if err := registry.Register(collector); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	want := []string{
		"kubelet_certificate_manager_client_expiration_renew_errors", "kubelet_certificate_manager_client_ttl_seconds",
		"kubelet_certificate_manager_server_rotation_seconds", "kubelet_certificate_manager_server_ttl_seconds",
		"kubelet_server_expiration_renew_errors",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if ttl := families[1].GetMetric()[0].GetGauge().GetValue(); ttl < 3500 || ttl > 3600 {
		t.Errorf("the client certificate is valid for %f seconds, want about an hour", ttl)
	}
}
