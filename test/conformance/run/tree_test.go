package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/conformance"
)

var (
	networkSet = conformance.Set{Name: "network", Part: conformance.Network}
	networkKit = conformance.Kit{Kubelet: conformance.Stock, Proxy: conformance.Ours, Backend: "nftables", Runtime: "containerd"}
)

// recordOf is a run that began in the given hour.
func recordOf(hour int) conformance.Record {
	return conformance.Record{
		Set: networkSet.Name, Kit: networkKit.Name(networkSet), Date: time.Date(2026, 11, 30, hour, 0, 0, 0, time.UTC),
		Results: []conformance.Result{{Spec: "a", State: conformance.Passed}},
	}
}

func recordAll(t *testing.T, tree Tree, hours ...int) {
	t.Helper()
	for _, hour := range hours {
		if err := tree.Record(networkSet, networkKit, recordOf(hour)); err != nil {
			t.Fatal(err)
		}
	}
}

func recordedHours(t *testing.T, tree Tree) (hours []int) {
	t.Helper()
	runs, err := tree.Runs(networkSet, networkKit)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		hours = append(hours, run.Date.Hour())
	}
	return hours
}

func TestTreeKeepsTheLastRuns(t *testing.T) {
	for _, test := range []struct {
		name         string
		record, want []int
	}{
		{"nothing", nil, nil},
		{"one", []int{1}, []int{1}},
		{"the same again", []int{1, 1}, []int{1}},
		{"more than there is room for", []int{1, 2, 3, 4, 5}, []int{3, 4, 5}},
		{"one that began earlier", []int{2, 3, 1}, []int{1, 2, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := Tree(t.TempDir())
			recordAll(t, tree, test.record...)
			if diff := cmp.Diff(test.want, recordedHours(t, tree)); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if left, err := filepath.Glob(filepath.Join(string(tree), "*", "*", "*", "*.new")); err != nil || left != nil {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestRunThatIsOlderThanAllIsNotRecorded(t *testing.T) {
	tree := Tree(t.TempDir())
	recordAll(t, tree, 2, 3, 4)
	if err := tree.Record(networkSet, networkKit, recordOf(1)); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff([]int{2, 3, 4}, recordedHours(t, tree)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestChapterHoldsTheRunsOfEachKit(t *testing.T) {
	tree := Tree(t.TempDir())
	recordAll(t, tree, 1, 2)
	stock := recordOf(3)
	stock.Kit = networkKit.Yardstick().Name(networkSet)
	if err := tree.Record(networkSet, networkKit.Yardstick(), stock); err != nil {
		t.Fatal(err)
	}
	chapter, err := tree.Chapter(networkSet)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, runs := range chapter.Kits {
		got[runs.Kit()] = len(runs)
	}
	want := map[string]int{networkKit.Name(networkSet): 2, stock.Kit: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs of each kit (-want +got):\n%s", diff)
	}
}

func TestTreeNamesTheRecordThatIsBroken(t *testing.T) {
	tree := Tree(t.TempDir())
	recordAll(t, tree, 1)
	path := filepath.Join(tree.runsDir(networkSet, networkKit.Name(networkSet)), "x.txt")
	if err := os.WriteFile(path, []byte("perhaps\t1\ta\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Runs(networkSet, networkKit); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names %s", err, path)
	}
}

func TestTreeKeepsRatchets(t *testing.T) {
	tree := Tree(t.TempDir())
	want := conformance.Ratchet{"a"}
	if err := tree.SaveRatchet(networkSet, networkKit, want); err != nil {
		t.Fatal(err)
	}
	got, err := tree.Ratchet(networkSet, networkKit)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ratchet (-want +got):\n%s", diff)
	}
}

// TestContainerdStandsInForTheRuntimeOfSomebodyElse: nothing is recorded of that.
func TestContainerdStandsInForTheRuntimeOfSomebodyElse(t *testing.T) {
	tree := Tree(t.TempDir())
	stock := recordOf(1)
	stock.Kit = networkKit.Yardstick().Name(networkSet)
	err := tree.Record(networkSet, networkKit.Yardstick(), stock)
	if err == nil {
		err = tree.SaveRatchet(networkSet, networkKit, conformance.Ratchet{"b"})
	}
	if err != nil {
		t.Fatal(err)
	}
	kit := networkKit
	kit.Runtime = "/run/crio/crio.sock"
	r := newRunner(Config{Set: networkSet, Kit: kit, Tree: tree})
	if err := r.compareWith(); err != nil {
		t.Fatal(err)
	}
	bar, err := r.bar(conformance.Past{Runtime: []string{"cri-o 1.37.0"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(conformance.Ratchet{"a", "b"}, bar.demand.Must); diff != "" {
		t.Errorf("must pass (-want +got):\n%s", diff)
	}
}

func TestTreeFindsReportsOfSoaks(t *testing.T) {
	tree := Tree(t.TempDir())
	dir := filepath.Join(string(tree), "results", soaks)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := tree.Soaks(); err != nil || got != nil {
		t.Errorf("none is recorded, got %v, %v", got, err)
	}
	const text = `{"kit": "kubelet ours", "facts": [{"name": "a", "ok": true}]}`
	if err := os.WriteFile(filepath.Join(dir, "ours.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := tree.Soaks()
	if err != nil || len(got) != 1 || got[0].Kit != "kubelet ours" {
		t.Errorf("got %v, %v, want the one report", got, err)
	}
}
