package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/conformance"
)

// flakyReport is where make test looks for what it names at its end.
const flakyReport = "../../../_out/flaky/representative"

// representative is the set that make test runs, with ours.
func representative(t *testing.T) (conformance.Set, conformance.Kit) {
	t.Helper()
	set, err := conformance.Lookup("representative")
	if err != nil {
		t.Fatal(err)
	}
	return set, conformance.Kit{Kubelet: conformance.Ours, Proxy: conformance.Ours, Backend: "nftables", Runtime: "containerd"}
}

// TestNodePassesRepresentativeSpecs runs forty of upstream's specs against two nodes with
// our kubelet and kube-proxy. One that fails has a second chance, and is named.
func TestNodePassesRepresentativeSpecs(t *testing.T) {
	clustertest.Require(t)
	if err := os.RemoveAll(flakyReport); err != nil {
		t.Fatal(err)
	}
	set, kit := representative(t)
	dir, err := os.MkdirTemp("", "nodekit-test-") //nolint:usetesting // It stays when the test fails.
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := Run(t.Context(), Config{
		Set: set, Kit: kit, Dir: dir, Tree: "..", Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Errorf("run the specs: %v", err)
	}
	const all = 40
	if diff := cmp.Diff(conformance.Count{Passed: all}, outcome.Verdict.Count); diff != "" {
		t.Errorf("specs (-want +got):\n%s", diff)
	}
	if len(outcome.Specs) != all || len(outcome.Record.Build) != 2 {
		t.Errorf("%d specs ran with %v, want %d with two programs", len(outcome.Specs), outcome.Record.Build, all)
	}
	for _, failure := range append(outcome.Verdict.Failures, outcome.Verdict.Lost...) {
		t.Errorf("failed: %s\n%s", failure.Spec, failure.Message)
	}
	reportSecondTries(t, flakyReport, outcome.Record.Results)
	if t.Failed() {
		t.Logf("reports and logs are in %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// reportSecondTries names the specs that failed before they passed, in a file if there are
// any.
func reportSecondTries(t *testing.T, path string, results []conformance.Result) {
	t.Helper()
	var report strings.Builder
	for _, result := range results {
		if result.SecondTry() {
			fmt.Fprintf(&report, "%s\n  %s\n", result.Spec, result.Message)
		}
	}
	if report.Len() == 0 {
		return
	}
	t.Logf("passed at the second try:\n%s", &report)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(report.String()), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// All of them must pass, whatever is recorded.
func TestEachRepresentativeSpecIsInTheRatchet(t *testing.T) {
	ratchet, err := Tree("..").Ratchet(representative(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(ratchet) != 40 {
		t.Errorf("the ratchet has %d specs, want all 40", len(ratchet))
	}
}

func TestSecondTriesAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flaky", "representative")
	passed := conformance.Result{Spec: "a", State: conformance.Passed}
	reportSecondTries(t, path, []conformance.Result{passed})
	if _, err := os.Stat(path); err == nil {
		t.Error("a spec that passed is named")
	}
	again := conformance.Latest([]conformance.Result{{Spec: "b", State: conformance.Failed, Message: "too slow"}, {Spec: "b", State: conformance.Passed}})
	reportSecondTries(t, path, append(again, passed))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "b\n  at the second try: too slow\n"; string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestNodesRunWhatIsSaid(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(other, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{self: true, other: false, other + "-missing": false} {
		if err := isExecutable(os.Getpid(), path); (err == nil) != want {
			t.Errorf("this process runs %s: %v, want no error: %v", path, err, want)
		}
	}
}
