package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// server is the API server as the node reaches it.
type server struct {
	config *rest.Config
	url    *url.URL
}

// server reads the kubeconfig; the error is nil with a nil server where there is no cluster.
func (n *Node) server() (*server, error) {
	if n.Kubeconfig == "" {
		return nil, nil //nolint:nilnil // a node of its own
	}
	config, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig)
	if err != nil {
		return nil, err
	}
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Kubeconfig, err)
	}
	return &server{config: config, url: u}, nil
}

// cluster returns the API server, or says why there is none to ask.
func (n *Node) cluster(r *report) *server {
	s, err := n.server()
	switch {
	case err != nil:
		r.skip("the kubeconfig cannot be read")
	case s == nil:
		r.skip("no kubeconfig: the node belongs to no cluster")
	default:
		return s
	}
	return nil
}

func (s *server) address() string {
	port := s.url.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(s.url.Hostname(), port)
}

// lookAtAPIServer goes to the API server step by step, so that it can say which one fails.
func lookAtAPIServer(ctx context.Context, n *Node, r *report) {
	s, err := n.server()
	switch {
	case err != nil:
		r.problem("correct the kubeconfig, or have the node join anew: kubeadm join, or --bootstrap-kubeconfig", "%s", err)
	case s == nil:
		r.skip("no kubeconfig: the node belongs to no cluster")
	case s.reach(ctx, r) && s.handshake(ctx, r):
		s.ask(ctx, n, r)
	}
}

// reach connects.
func (s *server) reach(ctx context.Context, r *report) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.address())
	if err == nil {
		conn.Close()
		return true
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		r.problem("correct the name in the kubeconfig, or this machine's DNS: /etc/resolv.conf, /etc/hosts", "the name of the API server is unknown: %s", dns)
	case errors.Is(err, syscall.ECONNREFUSED):
		r.problem("look whether it runs, and whether address and port in the kubeconfig are right", "nobody listens at %s", s.address())
	default:
		r.problem("look for firewalls and routes between this machine and it", "%s is not reached: %s", s.address(), err)
	}
	return false
}

// handshake looks at the server's certificate.
func (s *server) handshake(ctx context.Context, r *report) bool {
	if s.url.Scheme != "https" {
		return true
	}
	chain, err := s.chain(ctx)
	if err != nil {
		r.problem("look whether it is an API server that listens there", "%s does not speak TLS: %s", s.address(), err)
		return false
	}
	pool, err := s.authorities()
	if err != nil {
		r.problem("correct certificate-authority in the kubeconfig", "%s", err)
		return false
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	name := s.config.ServerName
	if name == "" {
		name = s.url.Hostname()
	}
	if s.config.Insecure {
		return true
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, DNSName: name})
	return err == nil || blame(err, chain[0], s, r)
}

// blame says what is wrong with a certificate of the server.
func blame(err error, leaf *x509.Certificate, s *server, r *report) bool {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().Before(leaf.NotBefore):
		r.problem("set this machine's clock", "the certificate of %s is valid from %s, and here it is %s", s.address(), day(leaf.NotBefore), day(time.Now()))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		r.problem("renew it at the API server (kubeadm certs renew apiserver), or set this machine's clock", "the certificate of %s expired on %s", s.address(), day(leaf.NotAfter))
	case errors.As(err, &host):
		r.problem("use a name or address that the certificate has, or add one to it", "%s", host)
	case errors.As(err, &authority):
		r.problem("take the cluster's CA into the kubeconfig: it is another than that of the server", "the certificate of %s is signed by %q, which the kubeconfig does not know", s.address(), leaf.Issuer)
	default:
		r.problem("look at the certificate of the API server", "%s", err)
	}
	return false
}

// chain returns the certificates of the server, whatever they are worth.
func (s *server) chain(ctx context.Context) ([]*x509.Certificate, error) {
	d := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // it is looked at, and nothing is sent
		ServerName:         s.config.ServerName,
		MinVersion:         tls.VersionTLS12,
	}}
	conn, err := d.DialContext(ctx, "tcp", s.address())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState() // a tls.Dialer has no others
	return state.PeerCertificates, nil
}

// authorities are those that the kubeconfig trusts; nil: those of this machine.
func (s *server) authorities() (*x509.CertPool, error) {
	c := rest.CopyConfig(s.config)
	if err := rest.LoadTLSFiles(c); err != nil {
		return nil, err
	}
	if len(c.CAData) == 0 {
		return nil, nil //nolint:nilnil // x509 takes nil for those of this machine
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CAData) {
		return nil, errors.New("the certificate authority in the kubeconfig is no certificate")
	}
	return pool, nil
}

// ask has the server say whether it knows this node.
func (s *server) ask(ctx context.Context, n *Node, r *report) {
	started := time.Now()
	status, _, err := s.get(ctx, nodePath(n.Name), nil)
	switch {
	case err != nil:
		r.problem("look at the log of the API server", "%s", err)
	case status == http.StatusUnauthorized:
		r.problem("look at the dates of the client certificate, and whether the cluster's CA signed it; else have the node join anew", "it does not know who this node is (401)")
	case status == http.StatusForbidden:
		r.problem("the client certificate must be of system:node:"+n.Name+" in group system:nodes", "this node may not read its own Node (403)")
	case status >= http.StatusInternalServerError:
		r.problem("look at the log of the API server, and at etcd", "it answers %d", status)
	default:
		r.ok("%s answers in %s", s.url, time.Since(started).Round(time.Millisecond))
	}
}

// get asks for an object, which is decoded into into if it is there and into is not nil.
func (s *server) get(ctx context.Context, path string, into any) (status int, date time.Time, err error) {
	transport, err := rest.TransportFor(s.config)
	if err != nil {
		return 0, date, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.JoinPath(path).String(), nil)
	if err != nil {
		return 0, date, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, date, err
	}
	defer resp.Body.Close()
	if date, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		date = time.Time{} // not told
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxObject))
	if err == nil && into != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(data, into)
	}
	return resp.StatusCode, date, err
}

// maxObject is more than an object of the API has.
const maxObject = 8 << 20

func nodePath(name string) string { return "/api/v1/nodes/" + url.PathEscape(name) }

func leasePath(name string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + url.PathEscape(name)
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
