package support_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// shownBy names tests that show what becomes of a field where it cannot be seen by taking
// it away from a pod: "package.Test".
var shownBy = map[string][]string{
	"PodSpec.HostUsers":                           {"examples/kubelet/node.TestGrants"},
	"PodSpec.RuntimeClassName":                    {"examples/kubelet/node.TestGrants"},
	"PodSecurityContext.FSGroupChangePolicy":      {"podworker/volume/csi.TestGroup"},
	"PodSecurityContext.SELinuxChangePolicy":      {"podworker/podspec.TestCheck"},
	"ObjectFieldSelector.APIVersion":              {"podworker/podspec.TestCheck"},
	"VolumeSource.CSI":                            {"podworker/volume/csi.TestInlineVolume"},
	"CSIVolumeSource.Driver":                      {"podworker/volume/csi.TestInlineVolume"},
	"CSIVolumeSource.FSType":                      {"podworker/volume/csi.TestInlineVolumeAsAsked"},
	"CSIVolumeSource.ReadOnly":                    {"podworker/volume/csi.TestInlineVolumeAsAsked"},
	"CSIVolumeSource.VolumeAttributes":            {"podworker/volume/csi.TestInlineVolume"},
	"CSIVolumeSource.NodePublishSecretRef":        {"podworker/volume/csi.TestInlineVolume"},
	"VolumeSource.PersistentVolumeClaim":          {"podworker/volume/csi.TestPersistentVolume"},
	"PersistentVolumeClaimVolumeSource.ClaimName": {"podworker/volume/csi.TestPersistentVolume"},
	"PersistentVolumeClaimVolumeSource.ReadOnly":  {"podworker/volume/csi.TestKernelReadOnly"},
	"VolumeSource.Ephemeral":                      {"podworker/volume/csi.TestEphemeralClaim"},
}

// TestEvidence looks whether the tests that are named exist.
func TestEvidence(t *testing.T) {
	known := map[string]map[string]bool{}
	all := maps.Clone(shownBy)
	maps.Copy(all, besideRules)
	for _, m := range metadataFields {
		all[m.key] = []string{m.test}
	}
	for key, list := range all {
		for _, name := range list {
			dir, test, _ := strings.Cut(name, ".")
			if known[dir] == nil {
				known[dir] = testsOf(t, dir)
			}
			if !known[dir][test] {
				t.Errorf("%s: there is no test %s", key, name)
			}
		}
	}
}

// testsOf returns the tests of a package of this module.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				out[f.Name.Name] = true
			}
		}
	}
	return out
}
