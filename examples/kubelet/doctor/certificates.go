package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// renewBefore is how long before its end a certificate should have been renewed.
const renewBefore = 24 * time.Hour

// lookAtCertificates looks at the dates and names of the node's own certificates.
func lookAtCertificates(_ context.Context, n *Node, r *report) {
	client := lookAtClient(n, r)
	serving := n.lookAtServing(r)
	if ca := n.Kubelet.Authentication.X509.ClientCAFile; ca != "" {
		if certs, err := readCertificates(ca); err != nil {
			r.problem("install the cluster's CA there: nobody is let in without", "clientCAFile: %s", err)
		} else {
			dates("clientCAFile "+ca, certs[0], r)
		}
	}
	switch {
	case !r.fine():
	case client == "" && serving == "":
		r.skip("there are none")
	default:
		r.ok("%s", oneLine(client+" "+serving))
	}
}

// lookAtClient looks at the certificate in the kubeconfig, and says until when it is good.
func lookAtClient(n *Node, r *report) string {
	s, err := n.server()
	if err != nil || s == nil {
		return "" // said elsewhere
	}
	c := rest.CopyConfig(s.config)
	if err := rest.LoadTLSFiles(c); err != nil {
		r.problem("have the node join anew: kubeadm join, or --bootstrap-kubeconfig", "%s: %s", n.Kubeconfig, err)
		return ""
	}
	if len(c.CertData) == 0 {
		return ""
	}
	if _, err := tls.X509KeyPair(c.CertData, c.KeyData); err != nil {
		r.problem("have the node join anew: kubeadm join, or --bootstrap-kubeconfig", "client certificate of %s: %s", n.Kubeconfig, err)
		return ""
	}
	certs, err := parseCertificates(c.CertData)
	if err != nil {
		return ""
	}
	leaf := certs[0]
	dates("client certificate of "+n.Kubeconfig, leaf, r)
	if want := "system:node:" + n.Name; n.Name != "" && leaf.Subject.CommonName != want {
		r.problem("set --hostname-override to the name in the certificate, or have the node join anew",
			"the client certificate is of %s, and the node's name needs %s", leaf.Subject.CommonName, want)
	}
	return "client until " + day(leaf.NotAfter)
}

// lookAtServing looks at the certificate that the kubelet shows, and says until when it is
// good.
func (n *Node) lookAtServing(r *report) string {
	path := n.Kubelet.TLSCertFile
	if path == "" {
		path = filepath.Join(n.CertDir, "kubelet-server-current.pem")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = filepath.Join(n.CertDir, "kubelet.crt")
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return "" // made at the start
		}
	}
	certs, err := readCertificates(path)
	if err != nil {
		r.problem("install it, or take tlsCertFile out so that the kubelet makes one", "serving certificate: %s", err)
		return ""
	}
	dates("serving certificate "+path, certs[0], r)
	return "serving until " + day(certs[0].NotAfter)
}

// dates tells of a certificate that is not good now, or not for long.
func dates(what string, c *x509.Certificate, r *report) {
	const renew = "renew it: with rotateCertificates and serverTLSBootstrap the kubelet does so in time; an expired client certificate needs kubeadm join anew"
	switch now := time.Now(); {
	case now.Before(c.NotBefore):
		r.problem("set this machine's clock", "%s is valid from %s, and here it is %s", what, day(c.NotBefore), day(now))
	case now.After(c.NotAfter):
		r.problem(renew, "%s expired on %s", what, day(c.NotAfter))
	case c.NotAfter.Sub(now) < min(renewBefore, c.NotAfter.Sub(c.NotBefore)/10):
		r.problem(renew, "%s expires on %s", what, day(c.NotAfter))
	}
}

func readCertificates(path string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certs, err := parseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return certs, nil
}

// parseCertificates returns the certificates among blocks of PEM, one at least.
func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("holds no certificate")
	}
	return certs, nil
}
