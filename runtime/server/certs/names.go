package certs

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// DefaultMinVersion is the oldest version of TLS that is spoken unless it is said
// otherwise, that of the kubelet.
const DefaultMinVersion = tls.VersionTLS12

// Version returns the version of TLS that Kubernetes' configurations call VersionTLS12 and
// the like; DefaultMinVersion for an empty name.
func Version(name string) (uint16, error) {
	switch name {
	case "":
		return DefaultMinVersion, nil
	case "VersionTLS10":
		return tls.VersionTLS10, nil
	case "VersionTLS11":
		return tls.VersionTLS11, nil
	case "VersionTLS12":
		return tls.VersionTLS12, nil
	case "VersionTLS13":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("%q is no version of TLS, want VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13", name)
}

// CipherSuites returns the suites of names as in RFC 8446 and its forerunners, in their
// order. insecure has the names of those that package crypto/tls advises against. The
// suites of TLS 1.3 are known, but no configuration of Go's can leave one out.
func CipherSuites(names []string) (ids []uint16, insecure []string, err error) {
	good, bad := tls.CipherSuites(), tls.InsecureCipherSuites()
	for _, name := range names {
		named := func(s *tls.CipherSuite) bool { return s.Name == name || oldName(s.Name) == name && name != "" }
		if i := slices.IndexFunc(good, named); i >= 0 {
			ids = append(ids, good[i].ID)
			continue
		}
		i := slices.IndexFunc(bad, named)
		if i < 0 {
			return nil, nil, fmt.Errorf("%q is no cipher suite of TLS that is known here", name)
		}
		ids, insecure = append(ids, bad[i].ID), append(insecure, name)
	}
	return ids, insecure, nil
}

// oldName returns the name that a suite had before its hash became part of it, which
// configurations of Kubernetes may still have.
func oldName(name string) string {
	if strings.HasSuffix(name, "_CHACHA20_POLY1305_SHA256") && strings.HasPrefix(name, "TLS_ECDHE_") {
		return strings.TrimSuffix(name, "_SHA256")
	}
	return ""
}
