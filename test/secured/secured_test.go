package secured_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// patience is for a machine with much else to do.
const patience = 4 * time.Minute

// access is what a cluster of kubeadm has for nodes that join: a token, and the rights to ask
// for certificates with it. Beside it are two accounts, one of which may read metrics.
const access = `
apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-abcdef, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: abcdef
  token-secret: 0123456789abcdef
  usage-bootstrap-authentication: "true"
  auth-extra-groups: system:bootstrappers:nodes
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bootstrap}
subjects: [{kind: Group, name: "system:bootstrappers:nodes", apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: ClusterRole, name: "system:node-bootstrapper", apiGroup: rbac.authorization.k8s.io}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: approve-nodes}
subjects: [{kind: Group, name: "system:bootstrappers:nodes", apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: ClusterRole, name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient", apiGroup: rbac.authorization.k8s.io}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: poor, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules: [{apiGroups: [""], resources: ["nodes/metrics"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
roleRef: {kind: ClusterRole, name: scraper, apiGroup: rbac.authorization.k8s.io}
`

// bootstrapFile is a kubeconfig with the token: server and authority are to be filled in.
const bootstrapFile = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: abcdef.0123456789abcdef}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// secured is a cluster with a node that has nothing but a token at first.
type secured struct {
	*cluster.Cluster
	t    *testing.T
	node *cluster.Node
	// trusted is the authority of the cluster.
	trusted *x509.CertPool
}

func start(t *testing.T) *secured {
	t.Helper()
	s := &secured{Cluster: clustertest.Start(t, cluster.Config{Name: "secured", NoDNS: true}), t: t, trusted: x509.NewCertPool()}
	s.kubectl(access, "apply", "-f", "-")
	flags := []string{"filled in when the node has a folder"}
	var err error
	s.node, err = s.AddNode(t.Context(), cluster.NodeConfig{
		Kubelet: cluster.Ours, Proxy: cluster.None, KubeletFlags: flags,
		KubeletSettings: map[string]any{
			"tlsCertFile": "", "tlsPrivateKeyFile": "", "serverTLSBootstrap": true, "rotateCertificates": true,
		},
		Connect: func(_ context.Context, c cluster.Client) (string, error) {
			if c.Program != "kubelet" {
				return c.Kubeconfig, nil
			}
			ca, err := os.ReadFile(c.Node.Dir("pki", "ca.crt"))
			if err != nil {
				return "", err
			}
			s.trusted.AppendCertsFromPEM(ca)
			file := c.Node.Dir("bootstrap.kubeconfig")
			flags[0] = "--bootstrap-kubeconfig=" + file
			text := fmt.Sprintf(bootstrapFile, s.URL(), base64.StdEncoding.EncodeToString(ca))
			return c.Node.Dir("kubelet.conf"), os.WriteFile(file, []byte(text), 0o600)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kubectl runs kubectl, which has to succeed.
func (s *secured) kubectl(input string, args ...string) string {
	s.t.Helper()
	out, err := s.Kubectl(s.t.Context(), input, args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// eventually waits for something.
func (s *secured) eventually(what string, check func(context.Context) error) {
	s.t.Helper()
	if err := testnode.Eventually(s.t.Context(), patience, what, check); err != nil {
		s.t.Fatal(err)
	}
}

// ask asks the API of the node from beside the API server, and returns status and body. An
// empty token is none.
func (s *secured) ask(ctx context.Context, path, token string, cert *tls.Certificate) (int, string, error) {
	config := &tls.Config{RootCAs: s.trusted, MinVersion: tls.VersionTLS12}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: s.Plane().Dial, TLSClientConfig: config, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:10250%s", s.node.Address(), path), http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// TestCertificatesAndRights takes a node from a token to an API that is served to those who
// may use it.
func TestCertificatesAndRights(t *testing.T) {
	clustertest.Require(t)
	s := start(t)
	for _, step := range []struct {
		name string
		run  func(*secured)
	}{
		{"the node has a certificate of its own", bootstrapped},
		{"the serving certificate is approved", approve},
		{"the API server asks the node", proxied},
		{"accounts get what they may", accounts},
		{"the API server goes", outage},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(&secured{s.Cluster, t, s.node, s.trusted}) }) {
			return
		}
	}
}

// bootstrapped looks at what the bootstrap has left.
func bootstrapped(s *secured) {
	s.t.Helper()
	pki := s.node.Private("lib", "kubelet", "pki")
	data, err := os.ReadFile(s.node.Dir("kubelet.conf"))
	if err != nil {
		s.t.Fatal(err)
	}
	if strings.Contains(string(data), "abcdef") || !strings.Contains(string(data), "/var/lib/kubelet/pki/kubelet-client-current.pem") {
		s.t.Errorf("the kubeconfig does not point to the certificate alone:\n%s", data)
	}
	target, err := os.Readlink(filepath.Join(pki, "kubelet-client-current.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(pki, filepath.Base(target))
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		s.t.Fatal(err)
	}
	if got, want := pair.Leaf.Subject.String(), "CN=system:node:"+s.node.NodeName()+",O=system:nodes"; got != want {
		s.t.Errorf("the certificate is for %s, want %s", got, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		s.t.Errorf("%s: %v, %v, want mode 0600", file, info, err)
	}
}

// approve has the node wait for its serving certificate until somebody approves it: it is
// nobody's business but an administrator's.
func approve(s *secured) {
	s.t.Helper()
	if status, _, err := s.ask(s.t.Context(), "/healthz", "", nil); err == nil {
		s.t.Errorf("the node answers %d without a certificate that anybody has approved", status)
	}
	var request certificatesv1.CertificateSigningRequest
	s.eventually("a serving certificate is asked for", func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "", "get", "csr", "-o", "json")
		if err != nil {
			return err
		}
		var list certificatesv1.CertificateSigningRequestList
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		i := slices.IndexFunc(list.Items, func(r certificatesv1.CertificateSigningRequest) bool {
			return r.Spec.SignerName == certificatesv1.KubeletServingSignerName && len(r.Status.Conditions) == 0
		})
		if i < 0 {
			return errors.New("it is not")
		}
		request = list.Items[i]
		return nil
	})
	if request.Spec.Username != "system:node:"+s.node.NodeName() {
		s.t.Errorf("%s has asked", request.Spec.Username)
	}
	s.kubectl("", "certificate", "approve", request.Name)
	s.eventually("the node serves with it", func(ctx context.Context) error {
		status, _, err := s.ask(ctx, "/healthz", "", nil)
		if err == nil && status != http.StatusUnauthorized {
			err = fmt.Errorf("it answers %d", status)
		}
		return err
	})
}

// proxied has the API server ask the node as kube-apiserver-kubelet-client.
func proxied(s *secured) {
	s.t.Helper()
	node := "/api/v1/nodes/" + s.node.NodeName() + "/proxy"
	if out := s.kubectl("", "get", "--raw", node+"/configz"); !strings.Contains(out, `"serverTLSBootstrap":true`) {
		s.t.Errorf("the configuration is %.300s", out)
	}
	if out := s.kubectl("", "get", "--raw", node+"/metrics"); !strings.Contains(out, "\nkubelet_certificate_manager_client_ttl_seconds ") || !strings.Contains(out, "\nkubelet_certificate_manager_server_ttl_seconds ") {
		s.t.Error("the metrics do not tell how long the certificates last")
	}
}

// token returns a token of an account.
func (s *secured) token(account string) string {
	s.t.Helper()
	return strings.TrimSpace(s.kubectl("", "create", "token", account))
}

// accounts asks the node with tokens of accounts that may read metrics, and may nothing.
func accounts(s *secured) {
	s.t.Helper()
	scraper, poor := s.token("scraper"), s.token("poor")
	for _, tt := range []struct {
		who, token, path string
		status           int
		body             string
	}{
		{"nobody", "", "/metrics", 401, "Unauthorized"},
		{"somebody with a made-up token", "made-up", "/metrics", 401, "Unauthorized"},
		{"the scraper", scraper, "/metrics", 200, ""},
		{"the scraper", scraper, "/metrics/resource", 200, ""},
		{"the scraper", scraper, "/pods", 403, "Forbidden (user=system:serviceaccount:default:scraper, verb=get, resource=nodes, subresource(s)=[pods proxy])"},
		{"the scraper", scraper, "/containerLogs/default/web/main", 403, "Forbidden (user=system:serviceaccount:default:scraper, verb=get, resource=nodes, subresource(s)=[proxy])"},
		{"the poor", poor, "/metrics", 403, "Forbidden (user=system:serviceaccount:default:poor, verb=get, resource=nodes, subresource(s)=[metrics])"},
		{"the poor", poor, "/healthz", 403, "Forbidden (user=system:serviceaccount:default:poor, verb=get, resource=nodes, subresource(s)=[healthz proxy])"},
	} {
		status, body, err := s.ask(s.t.Context(), tt.path, tt.token, nil)
		if err != nil || status != tt.status || !strings.Contains(body, tt.body) {
			s.t.Errorf("%s asks for %s: %d %.200q (%v), want %d %q", tt.who, tt.path, status, body, err, tt.status, tt.body)
		}
	}
}

// outage takes the API server away: those whom the node has heard of go on, everybody else is
// refused.
func outage(s *secured) {
	s.t.Helper()
	scraper := s.token("scraper")
	known := time.Now()
	if status, body, err := s.ask(s.t.Context(), "/metrics", scraper, nil); status != http.StatusOK {
		s.t.Fatalf("the scraper gets %d %.200q (%v)", status, body, err)
	}
	other := s.token("scraper")
	pair, err := tls.LoadX509KeyPair(s.Plane().Dir("pki", "admin.crt"), s.Plane().Dir("pki", "admin.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.APIServer().Kill(); err != nil {
		s.t.Fatal(err)
	}
	for _, tt := range []struct {
		who, token string
		cert       *tls.Certificate
		status     int
	}{
		{"the scraper", scraper, nil, http.StatusOK},
		{"the scraper with a token that was never seen", other, nil, http.StatusUnauthorized},
		{"the administrator, whose rights are not known", "", &pair, http.StatusInternalServerError},
	} {
		status, body, err := s.ask(s.t.Context(), "/metrics", tt.token, tt.cert)
		if time.Since(known) > time.Minute && tt.status == http.StatusOK {
			s.t.Log("the machine is so slow that what the node knew may have expired")
			continue
		}
		if err != nil || status != tt.status {
			s.t.Errorf("%s asks without an API server: %d %.200q (%v), want %d", tt.who, status, body, err, tt.status)
		}
	}
}
