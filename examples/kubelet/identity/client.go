package identity

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/connrotation"
)

// Config says where the identity of a node is and where it comes from. All fields but
// Bootstrap, UserAgent and Log are required.
type Config struct {
	// Kubeconfig is the file with the API server and the identity. A bootstrap writes it.
	Kubeconfig string
	// Bootstrap is a kubeconfig with credentials that are good for nothing but to ask for a
	// certificate, as those of a bootstrap token; empty: there is none.
	Bootstrap string
	// Dir is the directory of the certificates; it is made if it is missing.
	Dir string
	// Node is the name of the node, which its certificate carries.
	Node string
	// Once says that a certificate is asked for if there is none that is valid, and not
	// renewed.
	Once bool
	// UserAgent is what the node calls itself when it asks for certificates.
	UserAgent string
	// Log gets what happens; nil discards.
	Log *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Kubeconfig == "":
		return errors.New("identity: Config.Kubeconfig is empty, want a file, which a bootstrap would write")
	case c.Dir == "":
		return errors.New("identity: Config.Dir is empty, want the directory of the certificates")
	case c.Node == "":
		return errors.New("identity: Config.Node is empty, want the name of the node")
	}
	dir, err := filepath.Abs(c.Dir) // the kubeconfig names what is in it
	if err != nil {
		return fmt.Errorf("identity: Config.Dir: %w", err)
	}
	c.Dir = dir
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// clientPrefix and dirMode are those of the kubelet's files; plain is the form of requests
// for certificates, which are rare.
const (
	clientPrefix = "kubelet-client"
	dirMode      = 0o755
	plain        = "application/json"
)

// Client is the identity of a node towards its API server.
type Client struct {
	cfg     Config
	manager certificate.Manager
	// server is the API server, without credentials.
	server  *rest.Config
	metrics clientMetrics
	// look is how often the certificate is looked at.
	look time.Duration

	mu sync.Mutex // guards dialers
	// dialers have the connections that carry the certificate.
	dialers []*connrotation.Dialer
}

// Open finds the identity of a node: in the kubeconfig if its certificate is good, else
// the bootstrap has to get one, and the kubeconfig is written, pointing to where the
// certificate will be. Nothing is asked of the API server before Run.
func Open(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, dirMode); err != nil {
		return nil, fmt.Errorf("make the directory of certificates: %w", err)
	}
	store, err := certificate.NewFileStore(clientPrefix, cfg.Dir, cfg.Dir, "", "")
	if err != nil {
		return nil, fmt.Errorf("open the certificates in %s: %w", cfg.Dir, err)
	}
	first, config, err := cfg.find(store.CurrentPath())
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, server: rest.AnonymousClientConfig(config), metrics: newClientMetrics(), look: lookEvery}
	if c.manager, err = c.newManager(first, config); err != nil {
		return nil, fmt.Errorf("open the certificates in %s: %w", cfg.Dir, err)
	}
	c.metrics.watch(c.manager)
	return c, nil
}

// find returns the configuration with which the first certificate is asked for, and the
// one that has the node's certificate or will have it in the file pem.
func (c *Config) find(pem string) (first, config *rest.Config, err error) {
	if c.Bootstrap == "" {
		config, err := load(c.Kubeconfig)
		return config, config, err
	}
	there, err := exists(c.Kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("look for the identity of the node: %w", err)
	}
	if there {
		fault := usable(c.Kubeconfig, time.Now())
		if fault == nil {
			config, err := load(c.Kubeconfig)
			return config, config, err
		}
		c.Log.Warn("identity of the node cannot be used, a new one is asked for", "err", fault)
	}
	first, err = load(c.Bootstrap)
	if err != nil {
		return nil, nil, fmt.Errorf("bootstrap: %w", err)
	}
	config = rest.AnonymousClientConfig(first)
	config.CertFile, config.KeyFile = pem, pem
	if err := write(c.Kubeconfig, config, pem); err != nil {
		return nil, nil, fmt.Errorf("bootstrap: %w", err)
	}
	c.Log.Info("kubeconfig of the node is written; its certificate is asked for with the credentials of the bootstrap",
		"kubeconfig", c.Kubeconfig, "bootstrap", c.Bootstrap)
	return first, config, nil
}

// newManager returns who keeps the certificate of config. A certificate that is in the
// kubeconfig itself is replaced at once, as kubeadm expects it of a kubelet.
func (c *Client) newManager(first, config *rest.Config) (certificate.Manager, error) {
	store, err := certificate.NewFileStore(clientPrefix, c.cfg.Dir, c.cfg.Dir, config.CertFile, config.KeyFile)
	if err != nil {
		return nil, err
	}
	first = rest.CopyConfig(first)
	first.UserAgent, first.ContentType = c.cfg.UserAgent, plain
	// What could not be read once is read again at the next attempt.
	var renewing *rest.Config
	return certificate.NewManager(&certificate.Config{
		ClientsetFn: func(current *tls.Certificate) (kubernetes.Interface, error) {
			if current == nil {
				return kubernetes.NewForConfig(first)
			}
			if renewing == nil {
				config, err := c.Config(nil)
				if err != nil {
					return nil, err
				}
				renewing = config
			}
			return kubernetes.NewForConfig(renewing)
		},
		Template: &x509.CertificateRequest{Subject: pkix.Name{
			CommonName: "system:node:" + c.cfg.Node, Organization: []string{"system:nodes"},
		}},
		SignerName:              certificatesv1.KubeAPIServerClientKubeletSignerName,
		GetUsages:               certificate.DefaultKubeletClientGetUsages,
		BootstrapCertificatePEM: config.CertData,
		BootstrapKeyPEM:         config.KeyData,
		CertificateStore:        store,
		CertificateRenewFailure: c.metrics.failures,
	})
}

// Collectors are the kubelet's metrics of the certificate.
func (c *Client) Collectors() []prometheus.Collector { return c.metrics.all }

// Certificate returns the certificate of the moment, nil if there is none that is valid.
func (c *Client) Certificate() *tls.Certificate { return c.manager.Current() }
