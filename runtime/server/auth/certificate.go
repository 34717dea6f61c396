package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
)

// credentialID is the key in User.Extra of what tells certificates of one user apart.
const credentialID = "authentication.kubernetes.io/credential-id"

// fromCertificate returns who a client certificate belongs to; false if there is none, or
// no authority that could have signed it, or no name in it. It is verified for each
// request: authorities and certificates end while connections are open.
func (f *Filter) fromCertificate(r *http.Request) (User, bool, error) {
	if f.cfg.ClientCA == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, false, nil
	}
	roots := f.cfg.ClientCA()
	if roots == nil { // not the authorities of the machine, which nil means to crypto/x509
		return User{}, false, nil
	}
	leaf, between := r.TLS.PeerCertificates[0], x509.NewCertPool()
	for _, cert := range r.TLS.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return User{}, false, fmt.Errorf("verify client certificate %s: %w", leaf.SerialNumber, err)
	}
	return userOf(leaf)
}

// userOf returns who a certificate names: the common name is the user, the organizations
// are the groups.
func userOf(cert *x509.Certificate) (User, bool, error) {
	if cert.Subject.CommonName == "" {
		return User{}, false, nil
	}
	uid, err := uidIn(cert.Subject)
	if err != nil {
		return User{}, false, fmt.Errorf("read the UID in client certificate %s: %w", cert.SerialNumber, err)
	}
	sum := sha256.Sum256(cert.Raw)
	return User{
		Name:   cert.Subject.CommonName,
		UID:    uid,
		Groups: cert.Subject.Organization,
		Extra:  map[string][]string{credentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}, true, nil
}

// uidIn returns the UID in a name, empty if there is none, at the object identifier that
// Kubernetes has for it
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates).
func uidIn(name pkix.Name) (string, error) {
	oid, uid, found := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, "", 0
	for _, part := range name.Names {
		if !part.Type.Equal(oid) {
			continue
		}
		text, ok := part.Value.(string)
		if !ok || text == "" {
			return "", errors.New("it is no text")
		}
		uid = text
		found++
	}
	if found > 1 {
		return "", fmt.Errorf("there are %d", found)
	}
	return uid, nil
}
