package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// files writes an archive to a directory.
func files(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append([]byte(head), f.Data...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadFilesMerges(t *testing.T) {
	dir := files(t, `
-- base --
kubeReserved: {cpu: 100m, memory: 1Gi}
clusterDNS: [10.0.0.1, 10.0.0.2]
maxPods: 50
staticPodPath: /etc/kubernetes/manifests
shutdownGracePeriod: 1m
authentication: {x509: {clientCAFile: /ca}, anonymous: {enabled: true}}
-- d/20-site.conf --
kubeReserved: {memory: 2Gi, pid: "1000"}
clusterDNS: [10.0.0.9]
maxPods: 70
-- d/10-vendor.conf --
maxPods: 60
shutdownGracePeriod: null
authentication: {anonymous: {enabled: false}}
-- d/30-more/a.conf --
podsPerCore: 5
-- d/..data_1/20-site.conf --
registryBurst: 7
-- d/90-notes.txt --
maxPods: 1
`)
	cfg, problems, err := LoadFiles(filepath.Join(dir, "base"), filepath.Join(dir, "d"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"kubeReserved": map[string]string{"cpu": "100m", "memory": "2Gi", "pid": "1000"}, "clusterDNS": []string{"10.0.0.9"}, "maxPods": int32(70),
		"staticPodPath": "/etc/kubernetes/manifests", "podsPerCore": int32(5), "shutdown": time.Duration(0), "ca": "/ca", "anonymous": false,
		"healthzPort": int32(10248), "registryBurst": int32(10),
	}
	got := map[string]any{
		"kubeReserved": cfg.KubeReserved, "clusterDNS": cfg.ClusterDNS, "maxPods": cfg.MaxPods, "staticPodPath": cfg.StaticPodPath,
		"podsPerCore": cfg.PodsPerCore, "shutdown": cfg.ShutdownGracePeriod.Duration, "ca": cfg.Authentication.X509.ClientCAFile,
		"anonymous": *cfg.Authentication.Anonymous.Enabled, "healthzPort": *cfg.HealthzPort, "registryBurst": cfg.RegistryBurst,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	places := map[string]string{}
	for _, p := range problems {
		places[p.Field] = strings.TrimPrefix(p.File, dir+"/")
	}
	wantPlaces := map[string]string{
		"kubeReserved": "d/20-site.conf", "clusterDNS": "d/20-site.conf", "maxPods": "d/20-site.conf", "podsPerCore": "d/30-more/a.conf",
		"staticPodPath": "base", "authentication": "d/10-vendor.conf",
	}
	if diff := cmp.Diff(wantPlaces, places); diff != "" {
		t.Errorf("files of problems (-want +got):\n%s", diff)
	}
}

// TestDefaultsOfTheFileOutliveDropIns: the file has its defaults before anything changes it.
func TestDefaultsOfTheFileOutliveDropIns(t *testing.T) {
	all := map[string]string{"imagefs.available": "15%", "imagefs.inodesFree": "5%", "memory.available": "500Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"}
	only := map[string]string{"memory.available": "500Mi"}
	dropIn := "evictionHard: {memory.available: 500Mi}\nnodeStatusUpdateFrequency: 20s\n"
	tests := []struct {
		name   string
		base   string // "": none
		dropIn string // "": none
		flags  []Override
		hard   map[string]string
		report time.Duration
	}{
		{"in the file", dropIn, "", nil, only, 20 * time.Second},
		{"in a drop-in", "maxPods: 50\n", dropIn, nil, all, 5 * time.Minute},
		{"in a drop-in of no file", "", dropIn, nil, only, 5 * time.Minute},
		{"the file names another one", "evictionHard: {pid.available: 5%}\n", dropIn, nil, map[string]string{"memory.available": "500Mi", "pid.available": "5%"}, 5 * time.Minute},
		{"the file switches all off", "evictionHard: {}\n", dropIn, nil, only, 5 * time.Minute},
		{"the file has a frequency", "nodeStatusUpdateFrequency: 1m\n", dropIn, nil, all, time.Minute},
		{"a drop-in has the report's", "maxPods: 50\n", dropIn + "nodeStatusReportFrequency: 7m\n", nil, all, 7 * time.Minute},
		{
			"a drop-in takes one back", "maxPods: 50\n", "evictionHard: {memory.available: 500Mi, nodefs.inodesFree: null}\n", nil,
			map[string]string{"imagefs.available": "15%", "imagefs.inodesFree": "5%", "memory.available": "500Mi", "nodefs.available": "10%"},
			5 * time.Minute,
		},
		{"flags", "maxPods: 50\n", "", []Override{
			{Field: "evictionHard", Value: only, Source: "--eviction-hard"}, {Field: "nodeStatusUpdateFrequency", Value: "20s", Source: "--node-status-update-frequency"},
		}, only, 5 * time.Minute},
		{"flags without a file", "", "", []Override{{Field: "nodeStatusUpdateFrequency", Value: "20s", Source: "--node-status-update-frequency"}}, defaultEvictionHard(), 5 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := Sources{Overrides: tt.flags}
			if tt.base != "" {
				src.File = filepath.Join(files(t, "-- base --\n"+tt.base), "base")
			}
			if tt.dropIn != "" {
				src.DropIns = files(t, "-- 10.conf --\n"+tt.dropIn)
			}
			cfg, problems, err := LoadSources(src, []string{"evictionHard", "maxPods", "nodeStatusReportFrequency", "nodeStatusUpdateFrequency"})
			if err != nil || Err(problems) != nil {
				t.Fatal(err, problems)
			}
			if diff := cmp.Diff(tt.hard, cfg.EvictionHard); diff != "" {
				t.Errorf("evictionHard (-want +got):\n%s", diff)
			}
			if got := cfg.NodeStatusReportFrequency.Duration; got != tt.report {
				t.Errorf("nodeStatusReportFrequency is %s, want %s", got, tt.report)
			}
		})
	}
}

// TestDefaultsAreNobodysSettings: what the file has by default is not reported as in vain.
func TestDefaultsAreNobodysSettings(t *testing.T) {
	dir := files(t, "-- base --\nmaxPods: 50\n-- d/10.conf --\nmaxPods: 60\n")
	_, problems, err := LoadFiles(filepath.Join(dir, "base"), filepath.Join(dir, "d"), []string{"maxPods"})
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// TestEndpointWithoutAScheme: the path of a socket will do, with a warning.
func TestEndpointWithoutAScheme(t *testing.T) {
	cfg, problems, err := Load([]byte(head+"containerRuntimeEndpoint: /run/a.sock\nimageServiceEndpoint: /run/b.sock\n"), AllFields())
	if err != nil {
		t.Fatal(err)
	}
	if got := []string{cfg.ContainerRuntimeEndpoint, cfg.ImageServiceEndpoint}; !cmp.Equal(got, []string{"unix:///run/a.sock", "unix:///run/b.sock"}) {
		t.Errorf("endpoints are %v", got)
	}
	var said []string
	for _, p := range problems {
		said = append(said, p.Severity.String()+": "+p.Field)
	}
	if diff := cmp.Diff([]string{"warning: containerRuntimeEndpoint", "warning: imageServiceEndpoint"}, said); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, wrong := range []string{"run/a.sock", "tcp://127.0.0.1:1", "unix://run/a.sock"} {
		if _, problems, err := Load([]byte(head+"containerRuntimeEndpoint: "+wrong+"\n"), AllFields()); err != nil || Err(problems) == nil {
			t.Errorf("%s is taken: %v, %v", wrong, problems, err)
		}
	}
}

func TestLoadFilesTellsWhere(t *testing.T) {
	dir := files(t, `
-- base --
maxPods: 50
healthzPort: 70000
-- d/10.conf --
maxPodz: 60
evictionHard:
  memory.available: 100Mi
  memory.free: 1Gi
-- d/20.conf --
evictionHard: {nodefs.available: 101%}
`)
	_, problems, err := LoadFiles(filepath.Join(dir, "base"), filepath.Join(dir, "d"), []string{"maxPods", "healthzPort", "evictionHard"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.TrimPrefix(p.String(), dir+"/"))
	}
	want := []string{
		"base: line 4: healthzPort: is 70000, must be between 0 and 65535",
		`d/10.conf: line 3: maxPodz: unknown field; did you mean "maxPods"?`,
		"d/10.conf: line 6: evictionHard[memory.free]: is no signal; there are allocatableMemory.available, containerfs.available, containerfs.inodesFree, " +
			"imagefs.available, imagefs.inodesFree, memory.available, nodefs.available, nodefs.inodesFree, pid.available",
		`d/20.conf: line 3: evictionHard[nodefs.available]: threshold "101%": must not be more than 100%`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if err := Err(problems); err == nil || !strings.Contains(err.Error(), "10.conf: line 3") {
		t.Errorf("error %v", err)
	}
}

func TestLoadFilesRefuses(t *testing.T) {
	dir := files(t, `
-- base --
maxPods: 50
-- bad/10.conf --
maxPods: many
-- bad/20.conf --
port: x
-- kind/10.conf --
kind: Other
-- empty/README --
`)
	for name, want := range map[string][]string{
		"bad":     {"10.conf: line 3: maxPods", "20.conf: line 3: port"},
		"missing": {"list drop-ins"},
	} {
		_, _, err := LoadFiles(filepath.Join(dir, "base"), filepath.Join(dir, name), nil)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %v, want one that holds %q", name, err, w)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kind/20.conf"), []byte("kind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadFiles("", filepath.Join(dir, "kind"), nil); err == nil || !strings.Contains(err.Error(), "20.conf: line 1: kind") {
		t.Errorf("another kind: error %v", err)
	}
	cfg, problems, err := LoadFiles("", filepath.Join(dir, "empty"), nil)
	if err != nil || len(problems) > 0 || cfg.MaxPods != 110 {
		t.Errorf("no files: %v, problems %v, maxPods %d", err, problems, cfg.MaxPods)
	}
}

func TestLoadFilesFollowsALinkToTheDirectory(t *testing.T) {
	dir := files(t, "-- real/10.conf --\nmaxPods: 7\n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := LoadFiles("", link, nil)
	if err != nil || cfg.MaxPods != 7 {
		t.Errorf("%v, maxPods %d", err, cfg.MaxPods)
	}
}

func FuzzMerge(f *testing.F) {
	for _, text := range []string{"maxPods: 5\n", "evictionHard: {memory.available: 5%}\n", "kubeReserved: {cpu: 1e9}\nreservedSystemCPUs: 0-3\n", "logging: null\n", "reservedMemory: [{numaNode: -1, limits: {memory: 0}}]\n"} {
		f.Add(text, "maxPods: null\nclusterDNS: []\n")
	}
	f.Fuzz(func(t *testing.T, base, dropIn string) {
		var inputs []file
		for _, text := range []string{base, dropIn} {
			doc, err := single([]byte(head + text))
			if err != nil {
				return
			}
			inputs = append(inputs, file{path: text, doc: doc})
		}
		cfg, _, err := load(inputs, nil)
		if err == nil && (cfg.HealthzPort == nil || cfg.EvictionHard == nil) {
			t.Error("a configuration without defaults")
		}
	})
}

func TestAllFieldsLeaveNothingInVain(t *testing.T) {
	_, problems, err := Load([]byte(head+"seccompDefault: true\nmaxPods: -1\nauthentication: {x509: {clientCAFile: /ca}}\n"), AllFields())
	if err != nil || len(problems) != 1 || problems[0].Field != "maxPods" {
		t.Errorf("%v, problems %v", err, problems)
	}
}
