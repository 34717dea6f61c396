package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIssuedCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := newAuthority(dir, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		by    *authority
		who   subject
		usage x509.ExtKeyUsage
		host  string // Empty: not checked.
		want  bool   // The authority ca vouches for it.
	}{
		{"client", ca, subject{user: "u", groups: []string{"g"}}, x509.ExtKeyUsageClientAuth, "", true},
		{"client as a server", ca, subject{user: "u"}, x509.ExtKeyUsageServerAuth, "", false},
		{"server", ca, subject{user: "s", hosts: []string{"10.20.0.1", "localhost"}}, x509.ExtKeyUsageServerAuth, "10.20.0.1", true},
		{"server by name", ca, subject{user: "s", hosts: []string{"10.20.0.1", "localhost"}}, x509.ExtKeyUsageServerAuth, "localhost", true},
		{"another server", ca, subject{user: "s", hosts: []string{"10.20.0.1"}}, x509.ExtKeyUsageServerAuth, "10.20.0.2", false},
		{"of a stranger", stranger, subject{user: "u"}, x509.ExtKeyUsageClientAuth, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cert := issue(t, tt.by, tt.who)
			if diff := cmp.Diff(tt.who.groups, cert.Subject.Organization); cert.Subject.CommonName != tt.who.user || diff != "" {
				t.Errorf("it is for %s", cert.Subject)
			}
			roots := x509.NewCertPool()
			roots.AddCert(ca.cert)
			_, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{tt.usage}, DNSName: bracket(tt.host)})
			if (err == nil) != tt.want {
				t.Errorf("verified: %v, want success %v", err, tt.want)
			}
		})
	}
}

// issue issues a certificate and reads it back with its key.
func issue(t *testing.T, by *authority, who subject) *x509.Certificate {
	t.Helper()
	files, err := by.issue(filepath.Join(t.TempDir(), "x"), who)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.LoadX509KeyPair(files.cert, files.key)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(files.key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file has mode %v, %v", info.Mode(), err)
	}
	return loaded.Leaf
}

// bracket writes an address as crypto/x509 takes it for one.
func bracket(host string) string {
	if net.ParseIP(host) != nil {
		return "[" + host + "]"
	}
	return host
}

func TestKubeconfigHoldsAllItNeeds(t *testing.T) {
	dir := t.TempDir()
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	files, err := ca.issue(filepath.Join(dir, "u"), subject{user: "u"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := (&Cluster{ca: ca}).writeKubeconfig(file, files); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	if _, err := tls.X509KeyPair(user.Cert, user.Key); err != nil {
		t.Error(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(cluster.CA) || cluster.Server != "https://10.20.0.1:6443" {
		t.Errorf("the server is %s, and its authority %q", cluster.Server, cluster.CA)
	}
}
