package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
)

// trustAnchors returns the certificates of bundles as one PEM text, each once. Their order
// depends on the seed: it stays the same while the process lives, and nobody can rely on
// it (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#cluster-trust-bundles).
func trustAnchors(bundles []string, seed [sha256.Size]byte) ([]byte, error) {
	type anchor struct{ key, der []byte }
	var anchors []anchor
	seen := map[string]bool{}
	for _, text := range bundles {
		rest := []byte(text)
		for {
			block, after := pem.Decode(rest)
			if block == nil {
				break
			}
			rest = after
			if seen[string(block.Bytes)] {
				continue
			}
			seen[string(block.Bytes)] = true
			key := sha256.Sum256(append(seed[:], block.Bytes...))
			anchors = append(anchors, anchor{key: key[:], der: block.Bytes})
		}
		if strings.TrimSpace(string(rest)) != "" {
			return nil, errors.New("the bundle holds something else than certificates in PEM")
		}
	}
	slices.SortFunc(anchors, func(a, b anchor) int { return bytes.Compare(a.key, b.key) })
	var out []byte
	for _, a := range anchors {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der})...)
	}
	return out, nil
}
