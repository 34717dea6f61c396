package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime/server/auth"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.cert = a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key)
	return a
}

// sign makes a certificate, valid for an hour around now unless it says otherwise.
func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(1)
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent := template
	if a.cert != nil {
		parent = a.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// client makes a certificate of a client.
func (a *authority) client(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "carol", Organization: []string{"admins", "people"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(c)
	}
	return a.sign(t, c, a.key)
}

func TestCertificates(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	uid := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
	named := func(names ...pkix.AttributeTypeAndValue) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.ExtraNames = names }
	}
	tests := []struct {
		name string
		cert *x509.Certificate
		want string
		uid  string
	}{
		{"a good one", ours.client(t, nil), "200 carol", ""},
		{"of another authority", theirs.client(t, nil), "401 Unauthorized", ""},
		{"expired", ours.client(t, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}), "401 Unauthorized", ""},
		{"not valid yet", ours.client(t, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}), "401 Unauthorized", ""},
		{"of a server", ours.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), "401 Unauthorized", ""},
		{"without a name", ours.client(t, func(c *x509.Certificate) { c.Subject.CommonName = "" }), "401 Unauthorized", ""},
		{"with a UID", ours.client(t, named(pkix.AttributeTypeAndValue{Type: uid, Value: "1234"})), "200 carol", "1234"},
		{"with two UIDs", ours.client(t, named(pkix.AttributeTypeAndValue{Type: uid, Value: "1"}, pkix.AttributeTypeAndValue{Type: uid, Value: "2"})), "401 Unauthorized", ""},
		{"with an empty UID", ours.client(t, named(pkix.AttributeTypeAndValue{Type: uid, Value: ""})), "401 Unauthorized", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := protect(t, func(c *auth.Config) { c.ClientCA = ours.pool })
			f.access.allow("carol get proxy")
			r := httptest.NewRequest("GET", "/containerLogs/a/b/c", http.NoBody)
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tt.cert}}
			if got := f.send(r); got != tt.want {
				t.Errorf("the answer is %q, want %q", got, tt.want)
			}
			if tt.want != "200 carol" {
				return
			}
			asked := f.access.asked[0]
			if diff := cmp.Diff([]string{"admins", "people", "system:authenticated"}, asked.Groups); diff != "" || asked.UID != tt.uid {
				t.Errorf("the UID is %q, want %q; groups (-want +got):\n%s", asked.UID, tt.uid, diff)
			}
			if id := asked.Extra["authentication.kubernetes.io/credential-id"]; len(id) != 1 || !strings.HasPrefix(id[0], "X509SHA256=") {
				t.Errorf("the id of the certificate is %q", id)
			}
		})
	}
}

// An intermediate that the client sends counts, and an authority that goes does not.
func TestChainsAndAuthorities(t *testing.T) {
	root := newAuthority(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	between := &authority{key: key}
	between.cert = root.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key)
	leaf := between.client(t, nil)
	pool := root.pool()
	f := protect(t, func(c *auth.Config) {
		c.ClientCA, c.Mode, c.Access = func() *x509.CertPool { return pool }, auth.AlwaysAllow, nil
	})
	ask := func(token string, chain ...*x509.Certificate) string {
		r := httptest.NewRequest("GET", "/pods", http.NoBody)
		r.TLS = &tls.ConnectionState{PeerCertificates: chain}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return f.send(r)
	}
	for _, step := range []struct {
		name  string
		pool  *x509.CertPool
		token string
		chain []*x509.Certificate
		want  string
	}{
		{"with the intermediate", root.pool(), "", []*x509.Certificate{leaf, between.cert}, "200 carol"},
		{"without it", root.pool(), "", []*x509.Certificate{leaf}, "401 Unauthorized"},
		{"the authority has gone", newAuthority(t).pool(), "", []*x509.Certificate{leaf, between.cert}, "401 Unauthorized"},
		{"there are no authorities", nil, "", []*x509.Certificate{leaf, between.cert}, "401 Unauthorized"},
		{"a good token makes up for a bad certificate", newAuthority(t).pool(), "good", []*x509.Certificate{leaf}, "200 alice"},
		{"a good certificate makes up for a bad token", root.pool(), "bad", []*x509.Certificate{leaf, between.cert}, "200 carol"},
	} {
		pool = step.pool
		if got := ask(step.token, step.chain...); got != step.want {
			t.Errorf("%s: the answer is %q, want %q", step.name, got, step.want)
		}
	}
}
