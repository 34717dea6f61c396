package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is longer than any test.
const certificateLife = 30 * 24 * time.Hour

// authority issues certificates. Its own certificate and key are <name>.crt and
// <name>.key in dir.
type authority struct {
	dir, name string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

// subject is for whom a certificate is. Kubernetes takes the common name for the
// user and the organizations for the groups.
type subject struct {
	user   string
	groups []string
	// hosts are the names and addresses of a server; empty for a client.
	hosts []string
}

func newAuthority(dir, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of %s: %w", name, err)
	}
	template, err := certificateTemplate(name)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of %s: %w", name, err)
	}
	a := &authority{dir: dir, name: name, key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make certificate of %s: %w", name, err)
	}
	return a, writePair(filepath.Join(dir, name), der, key)
}

// certFile is the authority's certificate.
func (a *authority) certFile() string { return filepath.Join(a.dir, a.name+".crt") }

// keyFile is the authority's key.
func (a *authority) keyFile() string { return filepath.Join(a.dir, a.name+".key") }

// issue writes a certificate and its key as <base>.crt and <base>.key.
func (a *authority) issue(base string, who subject) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make key of %s: %w", who.user, err)
	}
	template, err := certificateTemplate(who.user)
	if err != nil {
		return pair{}, err
	}
	template.Subject.Organization = who.groups
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(who.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range who.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return pair{}, fmt.Errorf("make certificate of %s: %w", who.user, err)
	}
	return pair{cert: base + ".crt", key: base + ".key"}, writePair(base, der, key)
}

// pair is the files of a certificate and its key.
type pair struct{ cert, key string }

func certificateTemplate(commonName string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-time.Hour), // Clocks of virtual machines jump.
		NotAfter:     now.Add(certificateLife),
	}, nil
}

// writeKeyPair writes a fresh key pair without a certificate: <base>.key and <base>.pub.
func writeKeyPair(base string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", base, err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("make key %s: %w", base, err)
	}
	if err := writePEM(base+".pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(base+".key", key)
}

func writePair(base string, der []byte, key *ecdsa.PrivateKey) error {
	if err := writePEM(base+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(base+".key", key)
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
