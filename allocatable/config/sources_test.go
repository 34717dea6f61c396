package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOverridesWin: a setting takes the place of what files say, but where it merges, and
// problems name who set it.
func TestOverridesWin(t *testing.T) {
	dir := files(t, `
-- base --
kubeReserved: {cpu: 100m, memory: 1Gi}
featureGates: {A: true, B: true}
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: /ca}}
maxPods: 50
podsPerCore: 5
clusterDNS: [10.0.0.1, 10.0.0.2]
`)
	cfg, problems, err := LoadSources(Sources{
		File: filepath.Join(dir, "base"),
		Overrides: []Override{
			{Field: "kubeReserved", Value: map[string]string{"pid": "7"}, Source: "--kube-reserved"},
			{Field: "featureGates", Value: map[string]bool{"B": false, "C": true}, Source: "--feature-gates", Merge: true},
			{Field: "authentication.anonymous.enabled", Value: true, Source: "--anonymous-auth"},
			{Field: "maxPods", Value: int64(-1), Source: "--max-pods"},
			{Field: "clusterDNS", Value: []string{"dns"}, Source: "--cluster-dns"},
			{Field: "registryBurst", Value: int64(3), Source: "--registry-burst"},
			{Field: "registryBurst", Value: int64(4), Source: "--registry-burst"},
		},
	}, []string{"kubeReserved", "featureGates", "authentication", "maxPods", "clusterDNS"})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{cfg.KubeReserved, cfg.FeatureGates, *cfg.Authentication.Anonymous.Enabled, cfg.Authentication.X509.ClientCAFile, cfg.MaxPods, cfg.PodsPerCore, cfg.RegistryBurst}
	want := []any{map[string]string{"pid": "7"}, map[string]bool{"A": true, "B": false, "C": true}, true, "/ca", int32(-1), int32(5), int32(4)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	var said []string
	for _, p := range problems {
		p.File = filepath.Base(p.File)
		said = append(said, p.String())
	}
	wantSaid := []string{
		"base: line 7: podsPerCore: is not honoured: pods are not limited by it",
		`--max-pods: maxPods: is -1, must not be negative`,
		`--cluster-dns: clusterDNS[0]: is "dns", must be an IP address`,
		"--registry-burst: registryBurst: is not honoured: images are not pulled or checked by it",
	}
	if diff := cmp.Diff(wantSaid, said); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestNoSource: without any source there are the defaults.
func TestNoSource(t *testing.T) {
	cfg, problems, err := LoadSources(Sources{}, nil)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if cfg.MaxPods != defaultMaxPods {
		t.Errorf("maxPods is %d, want %d", cfg.MaxPods, defaultMaxPods)
	}
}

// TestOverrideOfNoField: a name that is no field is named with who set it.
func TestOverrideOfNoField(t *testing.T) {
	_, problems, err := LoadSources(Sources{Overrides: []Override{{Field: "maxPod", Value: 1, Source: "--max-pod"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := Err(problems); got == nil || got.Error() != `--max-pod: maxPod: unknown field; did you mean "maxPods"?` {
		t.Errorf("error is %v", got)
	}
}
