package identity

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// ServingConfig says for whom a serving certificate is. All fields but CertFile and
// KeyFile are required.
type ServingConfig struct {
	// Client is who asks for the certificate, as the node.
	Client kubernetes.Interface
	// Node is the name of the node.
	Node string
	// Dir is the directory of the certificates; it is made if it is missing.
	Dir string
	// Addresses returns the addresses of the node that the API server knows; as long as
	// there is no IP address among them, no certificate is asked for.
	Addresses func() []corev1.NodeAddress
	// CertFile and KeyFile have the certificate that is used while there is no other;
	// empty: there is none.
	CertFile, KeyFile string
}

// Serving is a serving certificate that the cluster signs: it is asked for with a
// CertificateSigningRequest, which somebody has to approve.
type Serving struct {
	manager certificate.Manager
	metrics servingMetrics
}

// NewServing returns the serving certificate of a node. Nothing is asked for before Run.
func NewServing(cfg ServingConfig) (*Serving, error) {
	if err := os.MkdirAll(cfg.Dir, dirMode); err != nil {
		return nil, fmt.Errorf("make the directory of certificates: %w", err)
	}
	store, err := certificate.NewFileStore("kubelet-server", cfg.Dir, cfg.Dir, cfg.CertFile, cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("open the certificates in %s: %w", cfg.Dir, err)
	}
	s := &Serving{metrics: newServingMetrics()}
	s.manager, err = certificate.NewManager(&certificate.Config{
		ClientsetFn:             func(*tls.Certificate) (kubernetes.Interface, error) { return cfg.Client, nil },
		GetTemplate:             func() *x509.CertificateRequest { return request(cfg.Node, cfg.Addresses()) },
		SignerName:              certificatesv1.KubeletServingSignerName,
		GetUsages:               certificate.DefaultKubeletServingGetUsages,
		CertificateStore:        store,
		CertificateRotation:     s.metrics.rotation,
		CertificateRenewFailure: s.metrics.failures,
	})
	if err != nil {
		return nil, fmt.Errorf("open the certificates in %s: %w", cfg.Dir, err)
	}
	s.metrics.watch(s.manager)
	return s, nil
}

// Certificate returns the certificate of the moment, nil if there is none that is valid.
func (s *Serving) Certificate() *tls.Certificate { return s.manager.Current() }

// Collectors are the kubelet's metrics of the certificate.
func (s *Serving) Collectors() []prometheus.Collector { return s.metrics.all }

// Run asks for the certificate, and for another one when 70 to 90 percent of its life are
// over or the addresses of the node have changed, until ctx ends.
func (s *Serving) Run(ctx context.Context) error {
	s.manager.Start()
	defer s.manager.Stop()
	<-ctx.Done()
	return nil
}

// request returns what is asked for: a certificate for all addresses of the node. nil: it
// has none that could be in a certificate yet.
func request(node string, addresses []corev1.NodeAddress) *x509.CertificateRequest {
	names, ips := map[string]bool{}, map[netip.Addr]bool{}
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a.Address)
		switch {
		case a.Address == "":
		case err == nil && a.Type != corev1.NodeExternalDNS && a.Type != corev1.NodeInternalDNS:
			ips[ip] = true
		case a.Type == corev1.NodeHostName, a.Type == corev1.NodeExternalDNS, a.Type == corev1.NodeInternalDNS:
			names[a.Address] = true
		}
	}
	if len(ips) == 0 {
		return nil
	}
	r := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: slices.Sorted(maps.Keys(names)),
	}
	for _, ip := range slices.SortedFunc(maps.Keys(ips), func(a, b netip.Addr) int { return cmp.Compare(a.String(), b.String()) }) {
		r.IPAddresses = append(r.IPAddresses, net.IP(ip.AsSlice()))
	}
	return r
}
