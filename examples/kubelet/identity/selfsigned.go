package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/nodekit-go/nodekit/runtime/server/certs"
)

// renewBefore is how long before its end a certificate of our own making is replaced at a
// start.
const renewBefore = 30 * 24 * time.Hour

// SelfSigned returns the files of a serving certificate that nobody else signs for,
// kubelet.crt and kubelet.key in dir. They are made if they are missing, and anew if they
// are self-signed and end within a month. Those of a stock kubelet are used.
func SelfSigned(dir, host string, log *slog.Logger) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key")
	hasCert, err := exists(certFile)
	if err != nil {
		return "", "", err
	}
	hasKey, err := exists(keyFile)
	if err != nil {
		return "", "", err
	}
	if hasCert && !hasKey {
		return "", "", fmt.Errorf("%s is there and %s is missing: bring the key back, or remove the certificate to have both made", certFile, keyFile)
	}
	if hasCert {
		certs, err := certutil.CertsFromFile(certFile)
		if err != nil {
			return "", "", err // It names the file.
		}
		if leaf := certs[0]; !ownMaking(leaf, host) || time.Now().Before(leaf.NotAfter.Add(-renewBefore)) {
			return certFile, keyFile, nil
		}
		log.Info("self-signed serving certificate is replaced, it ends soon", "file", certFile, "expires", expiry(certs[0]))
	}
	return certFile, keyFile, makeSelfSigned(certFile, keyFile, host)
}

// ownMaking reports whether a kubelet made a certificate: this one, or a stock one, which
// signs by an authority that it forgets.
func ownMaking(leaf *x509.Certificate, host string) bool {
	return leaf.Issuer.String() == leaf.Subject.String() || strings.HasPrefix(leaf.Issuer.CommonName, host+"-ca@")
}

// makeSelfSigned writes the key before the certificate, so that death between them leaves
// nothing that would be taken for a pair.
func makeSelfSigned(certFile, keyFile, host string) error {
	cert, key, err := certs.SelfSigned(time.Now(), host)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(certFile), dirMode); err != nil {
		return fmt.Errorf("make the directory of certificates: %w", err)
	}
	if err := os.Remove(certFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := replace(keyFile, key, 0o600); err != nil {
		return err
	}
	return replace(certFile, cert, 0o644)
}

// replace writes a file whole or not at all.
func replace(file string, data []byte, mode os.FileMode) error {
	tmp := file + ".tmp"
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil { // it may have been there
		return err
	}
	return os.Rename(tmp, file)
}
