package certs_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodekit-go/nodekit/runtime/server/certs"
)

// put writes files of a directory.
func put(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// selfSigned makes a pair for a host.
func selfSigned(t *testing.T, host string) (cert, key []byte) {
	t.Helper()
	cert, key, err := certs.SelfSigned(time.Now(), host)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// parsed returns the first certificate in PEM.
func parsed(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// trusts reports whether a pool has a certificate.
func trusts(t *testing.T, pool *x509.CertPool, cert []byte) bool {
	t.Helper()
	_, err := parsed(t, cert).Verify(x509.VerifyOptions{Roots: pool})
	return err == nil
}

func TestPoolIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _ := selfSigned(t, "first")
		second, _ := selfSigned(t, "second")
		third, _ := selfSigned(t, "third")
		dir := t.TempDir()
		put(t, dir, map[string][]byte{"ca.crt": first})
		var log bytes.Buffer
		pool, err := certs.OpenPool(filepath.Join(dir, "ca.crt"), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name    string
			content []byte
			trusted [][]byte
			not     [][]byte
			says    string
		}{
			{"another authority", second, [][]byte{second}, [][]byte{first}, "have changed"},
			{"cut off in the middle of the second", append(bytes.Clone(third), first[:len(first)/2]...), [][]byte{second}, [][]byte{first, third}, "cut off"},
			{"two authorities", append(bytes.Clone(third), first...), [][]byte{first, third}, [][]byte{second}, "have changed"},
			{"nothing", nil, [][]byte{first, third}, [][]byte{second}, "no certificate"},
			{"what there was", append(bytes.Clone(third), first...), [][]byte{first, third}, [][]byte{second}, "have changed"},
		} {
			log.Reset()
			put(t, dir, map[string][]byte{"ca.crt": step.content})
			<-time.After(time.Second)
			for range 3 {
				for _, cert := range step.trusted {
					if !trusts(t, pool.Current(), cert) {
						t.Errorf("%s: %s is not trusted", step.name, parsed(t, cert).Subject)
					}
				}
				for _, cert := range step.not {
					if trusts(t, pool.Current(), cert) {
						t.Errorf("%s: %s is trusted", step.name, parsed(t, cert).Subject)
					}
				}
				<-time.After(time.Second)
			}
			if got := strings.Count(log.String(), step.says); got != 1 || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("%s: the log has %q %d times, want once and nothing else:\n%s", step.name, step.says, got, log.String())
			}
		}
	})
}

func TestPoolThatCannotBeRead(t *testing.T) {
	cert, key := selfSigned(t, "host")
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no DER")})
	tests := []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "there is no certificate in PEM"},
		{"a key", key, "there is no certificate in PEM"},
		{"broken", append(bytes.Clone(cert), broken...), "certificate 2: x509: malformed certificate"},
		{"too large", bytes.Repeat([]byte("\n"), 5<<20), "has more than 4194304 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, map[string][]byte{"ca.crt": tt.content})
			_, err := certs.OpenPool(filepath.Join(dir, "ca.crt"), nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "ca.crt") {
				t.Errorf("the error is %v, want the file and %q", err, tt.want)
			}
		})
	}
	if _, err := certs.OpenPool(filepath.Join(t.TempDir(), "ca.crt"), nil); !os.IsNotExist(err) {
		t.Errorf("without the file the error is %v", err)
	}
}

func TestPairIsReadAnew(t *testing.T) {
	firstCert, firstKey := selfSigned(t, "first")
	secondCert, secondKey := selfSigned(t, "second")
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, map[string][]byte{"tls.crt": firstCert, "tls.key": firstKey})
		pair, err := certs.OpenPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name  string
			files map[string][]byte
			want  string
		}{
			{"only the certificate is new", map[string][]byte{"tls.crt": secondCert}, "first"},
			{"both are new", map[string][]byte{"tls.key": secondKey}, "second"},
			{"only the key is new", map[string][]byte{"tls.key": firstKey}, "second"},
			{"both are the old ones", map[string][]byte{"tls.crt": firstCert}, "first"},
		} {
			put(t, dir, step.files)
			<-time.After(time.Second)
			if got := pair.Certificate().Leaf.DNSNames[0]; got != step.want {
				t.Errorf("%s: the certificate is for %s, want %s", step.name, got, step.want)
			}
		}
		if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if got := pair.Certificate().Leaf.DNSNames[0]; got != "first" {
			t.Errorf("without the key the certificate is for %s, want first", got)
		}
	})
}

func TestPairThatDoesNotFit(t *testing.T) {
	cert, _ := selfSigned(t, "first")
	_, key := selfSigned(t, "second")
	dir := t.TempDir()
	put(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key})
	_, err := certs.OpenPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), nil)
	if err == nil || !strings.Contains(err.Error(), "tls.key") || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("the error is %v, want the files and that they do not match", err)
	}
}

func TestSelfSigned(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	data, _, err := certs.SelfSigned(now, "node-a", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cert := parsed(t, data)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	for _, host := range []string{"node-a", "10.0.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: now.Add(364 * 24 * time.Hour)}); err != nil {
			t.Errorf("for %s: %v", host, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now.Add(366 * 24 * time.Hour)}); err == nil {
		t.Error("it is valid for more than a year")
	}
	if cert.IsCA {
		t.Error("it could sign others")
	}
	if _, _, err := certs.SelfSigned(now); err == nil {
		t.Error("a certificate for no host was made")
	}
}

func FuzzPool(f *testing.F) {
	cert, key, err := certs.SelfSigned(time.Now(), "host")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(cert)
	f.Add(append(bytes.Clone(cert), key...))
	f.Add(append(bytes.Clone(cert), cert[:100]...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	file := filepath.Join(f.TempDir(), "ca.crt")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		pool, err := certs.OpenPool(file, nil)
		if err == nil && pool.Current().Equal(x509.NewCertPool()) {
			t.Error("a pool without authorities was accepted")
		}
	})
}
