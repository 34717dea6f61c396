package pullrecord

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/runtime/images/reference"
)

// Policy says for which images on the node a pod's credentials are verified. The names
// are those of imagePullCredentialsVerificationPolicy in the kubelet's configuration
// (https://kubernetes.io/docs/concepts/containers/images/#ensureimagepullcredentialverification).
type Policy string

// The policies.
const (
	// NeverVerify lets every pod use every image.
	NeverVerify Policy = "NeverVerify"
	// NeverVerifyPreloadedImages lets every pod use images that were not pulled by this
	// agent. It is the default.
	NeverVerifyPreloadedImages Policy = "NeverVerifyPreloadedImages"
	// NeverVerifyAllowlistedImages lets every pod use images that are on a list.
	NeverVerifyAllowlistedImages Policy = "NeverVerifyAllowlistedImages"
	// AlwaysVerify lets nobody use an image whose pull is not on record.
	AlwaysVerify Policy = "AlwaysVerify"
)

// Verifier decides when credentials have to be verified. The zero value is
// NeverVerifyPreloadedImages.
type Verifier struct {
	policy Policy
	names  []string
	// prefixes end with a slash.
	prefixes []string
}

// NewVerifier returns a Verifier for a policy; empty means NeverVerifyPreloadedImages.
// The list is for NeverVerifyAllowlistedImages only. Its entries are names of images as
// pods write them, without tag and digest, or all names below a path: "reg.example/team/*".
func NewVerifier(policy Policy, allowlist []string) (Verifier, error) {
	v := Verifier{policy: policy}
	switch policy {
	case NeverVerify, NeverVerifyPreloadedImages, AlwaysVerify, "":
		if len(allowlist) > 0 {
			return Verifier{}, fmt.Errorf("pullrecord: policy %q takes no list of images", policy)
		}
		return v, nil
	case NeverVerifyAllowlistedImages:
	default:
		return Verifier{}, fmt.Errorf("pullrecord: policy %q is not one of %s, %s, %s and %s", policy,
			NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify)
	}
	for _, entry := range allowlist {
		if err := v.allow(entry); err != nil {
			return Verifier{}, fmt.Errorf("pullrecord: list of images: %q: %w", entry, err)
		}
	}
	return v, nil
}

func (v *Verifier) allow(entry string) error {
	if prefix, ok := strings.CutSuffix(entry, "*"); ok {
		if len(prefix) < 2 || !strings.HasSuffix(prefix, "/") || strings.ContainsAny(prefix, "* \t") {
			return errors.New("want * only at the end, after a registry or path and a slash")
		}
		v.prefixes = append(v.prefixes, prefix)
		return nil
	}
	ref, err := reference.Parse(entry)
	if err != nil {
		return err
	}
	if ref.Name != entry {
		return errors.New("want the name without tag and digest")
	}
	v.names = append(v.names, entry)
	return nil
}

// never reports whether no credentials are ever verified.
func (v Verifier) never() bool { return v.policy == NeverVerify }

// required reports whether the credentials of a pod for an image have to be verified.
// name is as the pod writes it, without tag and digest; pulled says that this agent
// pulled the image.
func (v Verifier) required(name string, pulled bool) bool {
	switch v.policy {
	case NeverVerify:
		return false
	case AlwaysVerify:
		return true
	case NeverVerifyAllowlistedImages:
		below := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		return !slices.Contains(v.names, name) && !slices.ContainsFunc(v.prefixes, below)
	default:
		return pulled
	}
}
