package importbudget

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	module = "github.com/nodekit-go/nodekit"
	root   = "../.."
)

// rules are this module's. A budget is a little above what the package pulls in
// today; raise one only with the reason in the commit.
var rules = Rules{
	Parts: []string{"runtime", "probes", "podworker", "staticpods", "lease", "allocatable", "proxier", "cni"},
	Free:  []string{"examples", "test", "hack"},
	Forbidden: []string{
		"k8s.io/kubernetes", "k8s.io/client-go", "k8s.io/klog", "github.com/prometheus/client_golang",
	},
	Adapters: map[string][]string{"proxier/source/informer": {"k8s.io/client-go"}},
	Budgets: map[string]int{
		"runtime":                         115,
		"runtime/logs":                    2,
		"runtime/runtimetest":             115,
		"runtime/runtimetest/streaming":   150,
		"runtime/server":                  200,
		"runtime/images":                  177,
		"runtime/server/auth":             70,
		"runtime/server/certs":            0,
		"runtime/images/gc":               115,
		"runtime/images/pullrecord":       2,
		"runtime/images/reference":        2,
		"runtime/images/registryauth":     70,
		"probes":                          65,
		"probes/grpc":                     170,
		"probes/probestest":               65,
		"podworker":                       65,
		"podworker/admission":             66,
		"podworker/events":                65,
		"podworker/podsource":             66,
		"podworker/podstore":              65,
		"podworker/statuswriter":          68,
		"podworker/userns":                4,
		"podworker/volume":                70,
		"podworker/volume/atomicwriter":   0,
		"podworker/volume/csi":            180,
		"podworker/volume/csi/csitest":    118,
		"podworker/volume/tokens":         66,
		"podworker/volume/objects":        72,
		"podworker/podspec":               175,
		"podworker/podstatus":             65,
		"podworker/podsync":               175,
		"staticpods":                      70,
		"staticpods/mirror":               70,
		"lease":                           66,
		"lease/leasetest":                 66,
		"lease/nodestatus":                66,
		"lease/nodestatus/shutdown":       66,
		"allocatable":                     65,
		"allocatable/capacity":            65,
		"allocatable/config":              150,
		"allocatable/cgroups":             80,
		"allocatable/devices":             170,
		"allocatable/devices/devicestest": 118,
		"allocatable/pinning":             66,
		"allocatable/podresources":        175,
		"allocatable/eviction":            66,
		"allocatable/eviction/gauge":      80,
		"allocatable/topology":            65,
		"proxier":                         66,
		"proxier/iptables":                66,
		"proxier/nftables":                86,
		"proxier/ipvs":                    86,
		"proxier/source":                  70,
		"proxier/source/informer":         116,
		"proxier/config":                  150,
		"proxier/healthcheck":             66,
		"proxier/conntrack":               72,
		"proxier/sysctl":                  2,
		"proxier/proxiertest":             72,
		"cni":                             30,
		"cni/cnitest":                     2,

		"runtime/server/stats":            190,
		"runtime/server/stats/cgroupstat": 0,
	},
}

func TestModuleKeepsItsBudgets(t *testing.T) {
	readSources(t, root)
	g, err := Load(t.Context(), root, module)
	if err != nil {
		t.Fatal(err)
	}
	own := g.Own()
	if len(own) < 10 {
		t.Fatalf("%d packages of the module were loaded, that can't be all: %v", len(own), own)
	}
	for _, breach := range rules.Check(g) {
		t.Error(breach)
	}
	for _, rel := range own {
		t.Logf("%4d  %s", len(g.External(rel)), rel)
	}
}

// TestReadmeTellsTheWeights compares the table of packages in the README with what
// is measured.
func TestReadmeTellsTheWeights(t *testing.T) {
	readSources(t, root)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := Load(t.Context(), root, module)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| \[`+"`([a-z/]+)`"+`\]\([a-z/]+\) \| (\d+) \|`).FindAllStringSubmatch(string(readme), -1)
	if len(rows) == 0 {
		t.Fatal("README.md has no table of packages")
	}
	for _, row := range rows {
		if want := strconv.Itoa(len(g.External(row[1]))); row[2] != want {
			t.Errorf("README.md gives %s the weight %s, it is %s", row[1], row[2], want)
		}
	}
}

// readSources looks at every source file below dir. The go command answers from
// its test cache unless a file that the test itself looked at has changed; what
// `go list` reads does not count.
func readSources(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		_, err = os.Stat(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// list is the output of `go list` for a module m that breaks every rule.
const list = `
{"ImportPath":"fmt","Standard":true}
{"ImportPath":"k8s.io/klog/v2","Imports":["fmt"]}
{"ImportPath":"x.example/b","Imports":["k8s.io/klog/v2"]}
{"ImportPath":"x.example/a","Imports":["x.example/b","fmt"]}
{"ImportPath":"m","Imports":[]}
{"ImportPath":"m/probes/grpc","Imports":["x.example/a"]}
{"ImportPath":"m/probes","Imports":["m/probes/grpc"]}
{"ImportPath":"m/lease","Imports":["m/probes","k8s.io/klog/v2"]}
{"ImportPath":"m/cni","Imports":["m/test/kit"]}
{"ImportPath":"m/cni/cnitest","Imports":["m/cni"]}
{"ImportPath":"m/cni/adapter","Imports":["k8s.io/klog/v2"]}
{"ImportPath":"m/lease/internal/x","Imports":["x.example/a"]}
{"ImportPath":"m/test/kit","Imports":["x.example/a"]}
{"ImportPath":"m/examples/all","Imports":["m/probes","m/lease","m/cni","k8s.io/klog/v2"]}
`

func TestRulesFindBreaches(t *testing.T) {
	g, err := parse(strings.NewReader(list), "m")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{
		Parts:     []string{"probes", "lease", "cni"},
		Free:      []string{"examples", "test"},
		Forbidden: []string{"k8s.io/klog"},
		Adapters:  map[string][]string{"cni/adapter": {"k8s.io/klog"}},
		Budgets:   map[string]int{"probes": 3, "probes/grpc": 2, "lease": 3, "cni": 3, "cni/adapter": 1},
	}
	want := []string{
		"cni: imports the program or test package test/kit",
		"cni/cnitest: has no import budget; it pulls in 3 packages",
		"cni/cnitest: imports the program or test package test/kit",
		"lease: imports k8s.io/klog/v2",
		"lease: imports its sibling probes",
		"lease: imports its sibling probes/grpc",
		"probes: imports its own sub-package probes/grpc",
		"probes/grpc: pulls in 3 packages, its budget is 2",
	}
	if diff := cmp.Diff(want, r.Check(g)); diff != "" {
		t.Errorf("breaches (-want +got):\n%s", diff)
	}
}

func TestRulesAcceptACleanModule(t *testing.T) {
	const clean = `{"ImportPath":"fmt","Standard":true}
{"ImportPath":"m/probes","Imports":["fmt","m/internal/ring"]}
{"ImportPath":"m/probes/grpc","Imports":["m/probes"]}
{"ImportPath":"m/internal/ring","Imports":["fmt"]}`
	g, err := parse(strings.NewReader(clean), "m")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{Parts: []string{"probes"}, Budgets: map[string]int{"probes": 0, "probes/grpc": 0}}
	if got := r.Check(g); len(got) != 0 {
		t.Errorf("breaches: %q, want none", got)
	}
}

func TestParseRefusesGarbage(t *testing.T) {
	if _, err := parse(strings.NewReader("{"), "m"); err == nil {
		t.Error("parse of half an object: no error")
	}
}
