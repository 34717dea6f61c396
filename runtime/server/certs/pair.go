package certs

import (
	"crypto/tls"
	"fmt"
	"log/slog"
)

// Pair is a certificate and its key in files, such as tlsCertFile and tlsPrivateKeyFile of
// a kubelet.
type Pair struct{ source *source[tls.Certificate] }

// OpenPair reads a certificate, with those between it and its authority, and its key, both
// in PEM; they may be the same file. Files that do not fit together are an error now, and
// later the sign that they are being replaced: the pair that was read before stays in
// force. A nil log discards.
func OpenPair(certFile, keyFile string, log *slog.Logger) (*Pair, error) {
	s, err := open(log, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("certificate in %s with the key in %s: %w", certFile, keyFile, err)
		}
		return &pair, nil
	}, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &Pair{s}, nil
}

// Certificate returns the certificate of the files as they are now, with Leaf. It is never
// nil and must not be changed.
func (p *Pair) Certificate() *tls.Certificate { return p.source.current() }
