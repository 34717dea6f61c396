package doctor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate; by is nil for an authority.
func issue(t *testing.T, by *pair, name string, edit func(c *x509.Certificate)) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: []string{"system:nodes"}},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	if edit != nil {
		edit(template)
	}
	signer := by
	if by == nil {
		signer = &pair{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, &key.PublicKey, signer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{cert: cert, key: key}
}

func (p *pair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw})
}

func (p *pair) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// expired is a certificate of yesterday.
func expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
}

// cluster is an API server that knows one Node and its Lease, on TLS.
type cluster struct {
	ca     *pair
	node   *corev1.Node
	lease  *coordinationv1.Lease
	status int           // of all answers; 0: as it should be
	skew   time.Duration // of its clock
	path   string        // that is before those of the API; empty: none
}

// serve answers as an API server does.
func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().Add(c.skew).UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/json")
	var object any
	path, _ := strings.CutPrefix(r.URL.Path, c.path)
	switch path {
	case "/version":
		object = map[string]string{"gitVersion": "v1.37.2"}
	case nodePath("node-a"):
		if c.node != nil {
			object = c.node
		}
	case leasePath("node-a"):
		if c.lease != nil {
			object = c.lease
		}
	}
	switch {
	case c.status != 0:
		w.WriteHeader(c.status)
	case object == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		json.NewEncoder(w).Encode(object)
	}
}

// start starts the server with a certificate.
func (c *cluster) start(t *testing.T, cert *pair) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.cert.Raw}, PrivateKey: cert.key}}}
	s.Config.ErrorLog = log.New(&bytes.Buffer{}, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// kubeconfig writes one.
func kubeconfig(t *testing.T, server string, ca *pair, client *pair) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "kubelet.conf"), fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server, base64Of(ca.certPEM()), base64Of(client.certPEM()), base64Of(client.keyPEM(t))))
}

func base64Of(data []byte) string {
	text, _ := json.Marshal(data) // a string of base64
	return string(text)
}

// joined is a node of a cluster that works.
func joined(t *testing.T) (*Node, *cluster) {
	t.Helper()
	ca := issue(t, nil, "ca", nil)
	c := &cluster{ca: ca, node: readyNode(), lease: renewed(time.Now())}
	s := c.start(t, issue(t, ca, "kube-apiserver", nil))
	config := kubeconfig(t, s.URL, ca, issue(t, ca, "system:node:node-a", nil))
	return node(t, func(n *Node) { n.Kubeconfig = config }), c
}

func readyNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-a"},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
			},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2+nodekit.1"},
		},
	}
}

func renewed(at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: at}}}
}

func TestAPIServer(t *testing.T) {
	n, c := joined(t)
	want(t, look(t, n, "API server"), OK, "answers in")
	for status, words := range map[int]string{
		http.StatusUnauthorized: "who this node is (401)", http.StatusForbidden: "its own Node (403)", http.StatusInternalServerError: "answers 500",
	} {
		c.status = status
		want(t, look(t, n, "API server"), Problem, words)
	}
	n.Kubeconfig = filepath.Join(t.TempDir(), "none")
	want(t, look(t, n, "API server"), Problem, n.Kubeconfig)
	n.Kubeconfig = ""
	want(t, look(t, n, "API server"), Skipped)
}

// TestAPIServerBehindAPath: a proxy may have the cluster below a path.
func TestAPIServerBehindAPath(t *testing.T) {
	ca := issue(t, nil, "ca", nil)
	c := &cluster{node: readyNode(), lease: renewed(time.Now()), path: "/k8s/clusters/x"}
	s := c.start(t, issue(t, ca, "kube-apiserver", nil))
	config := kubeconfig(t, s.URL+c.path, ca, issue(t, ca, "system:node:node-a", nil))
	n := node(t, func(n *Node) { n.Kubeconfig = config })
	want(t, look(t, n, "Node"), OK)
}

// TestAPIServerIsNotReached: each way in which there is no connection has its words.
func TestAPIServerIsNotReached(t *testing.T) {
	ca := issue(t, nil, "ca", nil)
	client := issue(t, ca, "system:node:node-a", nil)
	closed := silent(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	plain.Config.ErrorLog = log.New(&bytes.Buffer{}, "", 0)
	for _, tt := range []struct{ name, server, words string }{
		{"nobody listens", "https://" + closed, "nobody listens at " + closed},
		{"no such name", "https://api.invalid:6443", "the name of the API server is unknown"},
		{"no TLS", "https://" + plain.Listener.Addr().String(), "does not speak TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := node(t, func(n *Node) { n.Kubeconfig = kubeconfig(t, tt.server, ca, client) })
			want(t, look(t, n, "API server"), Problem, tt.words)
		})
	}
}

// TestCertificateOfTheAPIServer: each way in which it is wrong has its words.
func TestCertificateOfTheAPIServer(t *testing.T) {
	ca := issue(t, nil, "ca", nil)
	client := issue(t, ca, "system:node:node-a", nil)
	for _, tt := range []struct {
		name  string
		cert  *pair
		words string
	}{
		{"expired", issue(t, ca, "kube-apiserver", expired), "expired on"},
		{"of tomorrow", issue(t, ca, "kube-apiserver", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(24 * time.Hour) }), "is valid from"},
		{"of another name", issue(t, ca, "kube-apiserver", func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere"} }), "127.0.0.1"},
		{"of another cluster", issue(t, issue(t, nil, "other", nil), "kube-apiserver", nil), "the kubeconfig does not know"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := (&cluster{}).start(t, tt.cert)
			n := node(t, func(n *Node) { n.Kubeconfig = kubeconfig(t, s.URL, ca, client) })
			want(t, look(t, n, "API server"), Problem, tt.words)
		})
	}
}

func TestCertificates(t *testing.T) {
	ca := issue(t, nil, "ca", nil)
	good := issue(t, ca, "system:node:node-a", nil)
	soon := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-100*time.Hour), time.Now().Add(time.Hour)
	}
	with := func(client *pair, edit func(n *Node)) *Node {
		return node(t, func(n *Node) {
			n.Kubeconfig = kubeconfig(t, "https://127.0.0.1:1", ca, client)
			if edit != nil {
				edit(n)
			}
		})
	}
	want(t, look(t, with(good, nil), "certificates"), OK, "client until "+day(good.cert.NotAfter))
	want(t, look(t, with(issue(t, ca, "system:node:node-a", expired), nil), "certificates"), Problem, "client certificate of", "expired on")
	want(t, look(t, with(issue(t, ca, "system:node:node-a", soon), nil), "certificates"), Problem, "expires on")
	want(t, look(t, with(issue(t, ca, "system:node:node-b", nil), nil), "certificates"), Problem, "is of system:node:node-b", "needs system:node:node-a")
	want(t, look(t, with(&pair{cert: good.cert, key: ca.key}, nil), "certificates"), Problem, "private key does not match")
	want(t, look(t, with(good, func(n *Node) {
		write(t, filepath.Join(n.Root, "pki", "kubelet.crt"), string(issue(t, nil, "node-a", expired).certPEM()))
	}), "certificates"), Problem, "serving certificate", "kubelet.crt", "expired on")
	want(t, look(t, with(good, func(n *Node) { n.Kubelet.TLSCertFile = filepath.Join(n.Root, "none.crt") }), "certificates"), Problem, "none.crt")
	want(t, look(t, with(good, func(n *Node) { n.Kubelet.Authentication.X509.ClientCAFile = filepath.Join(n.Root, "ca.crt") }), "certificates"), Problem, "clientCAFile", "ca.crt")
	want(t, look(t, node(t, nil), "certificates"), Skipped)
}

func TestClock(t *testing.T) {
	n, c := joined(t)
	want(t, look(t, n, "clock"), OK)
	c.skew = -10 * time.Minute
	want(t, look(t, n, "clock"), Problem, "ahead of that of the API server")
	c.skew = 10 * time.Minute
	want(t, look(t, n, "clock"), Problem, "behind that of the API server")
}

func TestNode(t *testing.T) {
	n, c := joined(t)
	want(t, look(t, n, "Node"), OK, "Ready", "v1.37.2+nodekit.1")
	c.node.Status.Conditions[1] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "container runtime is down"}
	want(t, look(t, n, "Node"), Problem, "not Ready since", "container runtime is down")
	c.node.Status.Conditions[1] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status."}
	want(t, look(t, n, "Node"), Problem, "Ready is Unknown")
	c.node = readyNode()
	c.node.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Message: "kubelet has disk pressure"}
	want(t, look(t, n, "Node"), Problem, "DiskPressure since", "kubelet has disk pressure")
	c.node.Status.Conditions = nil
	want(t, look(t, n, "Node"), Problem, "no condition Ready")
	c.node = nil
	want(t, look(t, n, "Node"), Problem, "no Node node-a")
}

func TestLease(t *testing.T) {
	n, c := joined(t)
	want(t, look(t, n, "Lease"), OK, "lasts 40s")
	c.lease = renewed(time.Now().Add(-10 * time.Minute))
	want(t, look(t, n, "Lease"), Problem, "was renewed ", "ago, it lasts 40s")
	c.lease.Spec.RenewTime = nil
	want(t, look(t, n, "Lease"), Problem, "never renewed")
	c.lease = nil
	want(t, look(t, n, "Lease"), Problem, "no Lease kube-node-lease/node-a")
}
