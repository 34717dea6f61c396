//go:build linux

package volume_test

import (
	"context"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// certificate returns PEM with some bytes.
func certificate(content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
}

// bundles are the texts of ClusterTrustBundles by their names or signers.
type bundles map[string][]string

func (b bundles) TrustBundles(_ context.Context, s *corev1.ClusterTrustBundleProjection) ([]string, error) {
	if s.Name == nil {
		return b[*s.SignerName], nil
	}
	if b[*s.Name] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clustertrustbundles"}, *s.Name)
	}
	return b[*s.Name], nil
}

func TestKernelTrustBundles(t *testing.T) {
	needsMounts(t)
	all := bundles{
		"one":            {"a comment\n" + certificate("1") + certificate("2") + certificate("1")},
		"example.com/ca": {certificate("1") + certificate("2"), certificate("2") + certificate("3")},
		"empty":          {""},
		"broken":         {certificate("1") + "-----BEGIN CERTIFICATE-----\nMIIB"},
	}
	tests := []struct {
		name         string
		bundle       string
		signer       string
		optional     bool
		want, fails  string
		certificates int
	}{
		{name: "named", bundle: "one", certificates: 2},
		{name: "selected", signer: "example.com/ca", certificates: 3},
		{name: "empty", bundle: "empty"},
		{name: "missing", bundle: "none", fails: `clustertrustbundle "none" not found`},
		{name: "missing, optional", bundle: "none", optional: true},
		{name: "nothing selected", signer: "none", fails: "matched zero ClusterTrustBundles"},
		{name: "nothing selected, optional", signer: "none", optional: true},
		{name: "broken", bundle: "broken", fails: "clustertrustbundle broken: the bundle holds something else"},
	}
	for _, tt := range tests {
		s := &corev1.ClusterTrustBundleProjection{Path: "ca.pem", Optional: &tt.optional}
		if tt.bundle != "" {
			s.Name = &tt.bundle
		} else {
			s.SignerName = &tt.signer
		}
		m := newManager(t, volume.Config{Bundles: all})
		p := pod("1", projected(corev1.VolumeProjection{ClusterTrustBundle: s}))
		if tt.fails != "" {
			contains(t, attempt(t, m, p), tt.fails)
			continue
		}
		got := files(t, setUp(t, m, p)["all"])["ca.pem"]
		var found []string
		for rest := []byte(got); ; {
			block, after := pem.Decode(rest)
			if block == nil {
				break
			}
			found, rest = append(found, string(block.Bytes)), after
		}
		slices.Sort(found)
		if want := strings.Split("1 2 3", " ")[:tt.certificates]; !slices.Equal(found, want) || strings.Contains(got, "comment") {
			t.Errorf("%s: certificates are %v, want %v, in\n%s", tt.name, found, want, got)
		}
	}
}
