package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
)

// Pool is a file of authorities, such as clientCAFile of a kubelet.
type Pool struct{ source *source[x509.CertPool] }

// OpenPool reads a file of certificates in PEM. It is an error if there is none in it, or
// one that cannot be parsed. Later errors are logged, and the authorities that were read
// before stay in force. A nil log discards.
func OpenPool(file string, log *slog.Logger) (*Pool, error) {
	s, err := open(log, func(contents [][]byte) (*x509.CertPool, error) {
		pool, err := parsePool(contents[0])
		if err != nil {
			return nil, fmt.Errorf("authorities in %s: %w", file, err)
		}
		return pool, nil
	}, file)
	if err != nil {
		return nil, err
	}
	return &Pool{s}, nil
}

// Current returns the authorities of the file as it is now. It is never nil and must not
// be changed.
func (p *Pool) Current() *x509.CertPool { return p.source.current() }

// parsePool reads certificates in PEM. A block that is something else is passed over; a
// certificate that is broken is an error: without it some clients would be nobody.
func parsePool(data []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), 0
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if found == 0 {
				return nil, errors.New("there is no certificate in PEM")
			}
			if bytes.Contains(rest, []byte("-----BEGIN CERTIFICATE-----")) {
				return nil, fmt.Errorf("what follows certificate %d is cut off or no PEM", found)
			}
			return pool, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", found+1, err)
		}
		pool.AddCert(cert)
		found++
	}
}
