package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
)

// Config says how a server speaks TLS. Certificate is required.
type Config struct {
	// Certificate returns the certificate of the moment; nil: there is none yet, and
	// clients are turned away. It is called for each handshake.
	Certificate func() *tls.Certificate
	// ClientCAs returns the authorities of the moment, which clients are told to choose a
	// certificate by; nil: clients are not asked for certificates.
	ClientCAs func() *x509.CertPool
	// MinVersion is the oldest version that is spoken, as tls.VersionTLS12; 0:
	// DefaultMinVersion.
	MinVersion uint16
	// CipherSuites are those that are taken below TLS 1.3; nil: those of crypto/tls.
	CipherSuites []uint16
	// Curves are the key exchanges that are taken; nil: those of crypto/tls.
	Curves []tls.CurveID
}

// ErrNoCertificate is why a handshake failed when the server had no certificate.
var ErrNoCertificate = errors.New("the server has no certificate yet")

// Server returns a configuration for a server of HTTP/2 and HTTP/1.1. A client
// certificate is asked for and neither required nor verified: who serves the requests
// decides, with the authorities of the moment of each request, so that clients with
// another kind of credentials can connect, and an authority that is taken out of its file
// counts no longer for connections that are open.
//
// It is for [tls.NewListener], and for the field TLSConfig of an http.Server that
// serves on that: ServeTLS would offer HTTP/2 where the suites forbid it, and fail.
func Server(cfg Config) *tls.Config {
	c := &tls.Config{
		MinVersion:       cfg.MinVersion,
		CipherSuites:     cfg.CipherSuites,
		CurvePreferences: cfg.Curves,
		NextProtos:       protocols(cfg),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if cert := cfg.Certificate(); cert != nil {
				return cert, nil
			}
			return nil, ErrNoCertificate
		},
	}
	if c.MinVersion == 0 {
		c.MinVersion = DefaultMinVersion
	}
	if cfg.ClientCAs == nil {
		return c
	}
	c.ClientAuth = tls.RequestClientCert
	asking := c.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := asking.Clone() // without a key for tickets of its own it has that of c
		now.ClientCAs = cfg.ClientCAs()
		return now, nil
	}
	return c
}

// protocols returns what is offered: HTTP/2 unless the suites lack those that RFC 9113,
// section 9.2.2, requires with TLS 1.2, without which net/http serves nothing at all.
func protocols(cfg Config) []string {
	required := func(suite uint16) bool {
		return suite == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 || suite == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
	}
	if cfg.CipherSuites != nil && cfg.MinVersion < tls.VersionTLS13 && !slices.ContainsFunc(cfg.CipherSuites, required) {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}
