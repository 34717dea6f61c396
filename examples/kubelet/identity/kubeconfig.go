package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

// load reads a kubeconfig file.
func load(kubeconfig string) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	loaded, err := rules.Load()
	if err != nil {
		return nil, err // It names the file.
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*loaded, loaded.CurrentContext, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	return config, nil
}

// usable says why a kubeconfig has no client certificate with which a node could go on:
// it is missing, broken or has expired. nil: it has one.
func usable(kubeconfig string, now time.Time) error {
	config, err := load(kubeconfig)
	if err != nil {
		return err
	}
	transport, err := config.TransportConfig()
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	if !transport.HasCertAuth() {
		return fmt.Errorf("%s has no client certificate", kubeconfig)
	}
	if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
		return fmt.Errorf("client certificate of %s: %w", kubeconfig, err)
	}
	certs, err := certutil.ParseCertsPEM(config.CertData)
	if err != nil {
		return fmt.Errorf("client certificate of %s: %w", kubeconfig, err)
	}
	for _, cert := range certs {
		if now.After(cert.NotAfter) {
			return fmt.Errorf("client certificate of %s has expired at %s", kubeconfig, expiry(cert))
		}
	}
	return nil
}

func expiry(cert *x509.Certificate) string { return cert.NotAfter.Format(time.RFC3339) }

// exists reports whether there is a file. One that cannot be looked at is an error, so
// that nothing is written over it.
func exists(file string) (bool, error) {
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// write makes the kubeconfig of a node: the API server as in the kubeconfig of the
// bootstrap, and the certificate and key in the file pem.
func write(kubeconfig string, bootstrap *rest.Config, pem string) error {
	cluster := &clientcmdapi.Cluster{
		Server:                bootstrap.Host,
		TLSServerName:         bootstrap.ServerName,
		InsecureSkipTLSVerify: bootstrap.Insecure,
		CertificateAuthority:  bootstrap.CAFile,
	}
	if bootstrap.CAFile == "" {
		cluster.CertificateAuthorityData = bootstrap.CAData
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["default-cluster"] = cluster
	c.AuthInfos["default-auth"] = &clientcmdapi.AuthInfo{ClientCertificate: pem, ClientKey: pem}
	c.Contexts["default-context"] = &clientcmdapi.Context{Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}
	c.CurrentContext = "default-context"
	if err := clientcmd.WriteToFile(*c, kubeconfig); err != nil {
		return fmt.Errorf("write %s: %w", kubeconfig, err)
	}
	return nil
}
