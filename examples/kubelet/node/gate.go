package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/identity"
	"github.com/nodekit-go/nodekit/runtime/server/auth"
	"github.com/nodekit-go/nodekit/runtime/server/certs"
)

// gate decides who gets through to the HTTPS API, and proves to those who ask that this is
// the node. Its zero value lets nobody through.
type gate struct {
	protect func(http.Handler) http.Handler
	tls     *tls.Config
	// serving has the certificate if the cluster signs it; nil: files have it.
	serving *identity.Serving
}

// openGate reads the files of the configuration that the API needs.
func (n *Node) openGate() (*gate, error) {
	k, g := n.cfg.Kubelet, &gate{protect: n.cfg.API.Protect, tls: n.cfg.API.TLS}
	if !*k.EnableServer {
		return g, nil
	}
	var authorities func() *x509.CertPool
	if file := k.Authentication.X509.ClientCAFile; file != "" {
		pool, err := certs.OpenPool(file, n.log)
		if err != nil {
			return nil, fmt.Errorf("node: authentication.x509.clientCAFile of the configuration: %w", err)
		}
		authorities = pool.Current
	}
	if g.protect == nil {
		filter, err := auth.New(n.access(authorities))
		if err != nil {
			return nil, fmt.Errorf("node: %w", err)
		}
		g.protect = filter.Protect
	}
	if g.tls == nil {
		var err error
		if g.tls, err = g.newTLS(n, authorities); err != nil {
			return nil, fmt.Errorf("node: %w", err)
		}
	}
	return g, nil
}

// access is what the configuration says about those who ask. Without an API server there
// is nobody who knows tokens and rights.
func (n *Node) access(authorities func() *x509.CertPool) auth.Config {
	authn, authz := n.cfg.Kubelet.Authentication, n.cfg.Kubelet.Authorization
	c := auth.Config{
		Node:      n.cfg.Name,
		ClientCA:  authorities,
		TokenTTL:  authn.Webhook.CacheTTL.Duration,
		Anonymous: authn.Anonymous.Enabled != nil && *authn.Anonymous.Enabled,
		AllowTTL:  authz.Webhook.CacheAuthorizedTTL.Duration,
		DenyTTL:   authz.Webhook.CacheUnauthorizedTTL.Duration,
		Log:       n.log,
	}
	webhook := authn.Webhook.Enabled != nil && *authn.Webhook.Enabled
	alone := n.cfg.Client == nil
	switch {
	case authz.Mode == kubeletconfig.KubeletAuthorizationModeAlwaysAllow:
		c.Mode = auth.AlwaysAllow
	case alone:
		n.log.Warn("nobody may use the HTTPS API: authorization.mode is Webhook and there is no API server to ask")
		c.Access = noRights{}
	default:
		c.Access = n.cfg.Client.AuthorizationV1().SubjectAccessReviews()
	}
	if c.Mode == auth.AlwaysAllow && !c.Anonymous && authn.X509.ClientCAFile == "" && (alone || !webhook) {
		n.log.Warn("nobody may use the HTTPS API: authorization.mode is AlwaysAllow, and nothing tells who asks; " +
			"set authentication.x509.clientCAFile or authentication.anonymous.enabled")
	}
	if webhook && !alone {
		c.Tokens = n.cfg.Client.AuthenticationV1().TokenReviews()
	}
	return c
}

// noRights is the authorizer of a node without an API server.
type noRights struct{}

// Create implements auth.AccessReviews.
func (noRights) Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	return &authorizationv1.SubjectAccessReview{}, nil
}

// newTLS returns how TLS is spoken, with the certificate of the cluster, of files of the
// configuration, or of the node's own making.
func (g *gate) newTLS(n *Node, authorities func() *x509.CertPool) (*tls.Config, error) {
	k, c := n.cfg.Kubelet, certs.Config{ClientCAs: authorities}
	var err error
	if c.MinVersion, err = certs.Version(k.TLSMinVersion); err != nil {
		return nil, fmt.Errorf("tlsMinVersion of the configuration: %w", err)
	}
	if c.CipherSuites, _, err = certs.CipherSuites(k.TLSCipherSuites); err != nil {
		return nil, fmt.Errorf("tlsCipherSuites of the configuration: %w", err)
	}
	for _, curve := range k.TLSCurvePreferences {
		c.Curves = append(c.Curves, tls.CurveID(curve))
	}
	if k.ServerTLSBootstrap {
		if g.serving, err = n.newServing(); err != nil {
			return nil, err
		}
		c.Certificate = g.serving.Certificate
		return certs.Server(c), nil
	}
	certFile, keyFile := k.TLSCertFile, k.TLSPrivateKeyFile
	if certFile == "" && keyFile == "" {
		if certFile, keyFile, err = identity.SelfSigned(n.certDir(), n.cfg.Name, n.log); err != nil {
			return nil, fmt.Errorf("self-signed serving certificate: %w", err)
		}
	}
	pair, err := certs.OpenPair(certFile, keyFile, n.log)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	c.Certificate = pair.Certificate
	return certs.Server(c), nil
}

// newServing returns the certificate that the cluster signs.
func (n *Node) newServing() (*identity.Serving, error) {
	k := n.cfg.Kubelet
	if n.cfg.Client == nil {
		return nil, errors.New("serverTLSBootstrap of the configuration needs an API server, and there is none")
	}
	s, err := identity.NewServing(identity.ServingConfig{
		Client:    n.cfg.Client,
		Node:      n.cfg.Name,
		Dir:       n.certDir(),
		Addresses: n.knownAddresses,
		CertFile:  k.TLSCertFile,
		KeyFile:   k.TLSPrivateKeyFile,
	})
	if err != nil {
		return nil, err
	}
	for _, c := range s.Collectors() {
		if err := n.cfg.metrics.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// knownAddresses are the addresses of the node that the API server has.
func (n *Node) knownAddresses() []corev1.NodeAddress {
	if o := n.beat.object(); o != nil {
		return o.Status.Addresses
	}
	return nil
}

// run keeps the certificate until ctx ends.
func (g *gate) run(ctx context.Context) error {
	if g.serving == nil {
		return nil
	}
	return g.serving.Run(ctx)
}

// certDir is where certificates are.
func (n *Node) certDir() string {
	return cmp.Or(n.cfg.API.CertDir, filepath.Join(n.cfg.Root, "pki"))
}
