package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/conformance"
)

func recorded(t *testing.T) conformance.Page {
	t.Helper()
	page, err := newPage("..")
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestPageIsThatOfTheRecordedResults(t *testing.T) {
	var want bytes.Buffer
	if err := recorded(t).Write(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/conformance.md is not current, run make conformance-page (-want +got):\n%s", diff)
	}
}

func TestEachRecordedDifferenceHasAReason(t *testing.T) {
	page := recorded(t)
	comparisons, err := page.Comparisons()
	if err != nil {
		t.Fatal(err)
	}
	var losses []conformance.Loss
	for _, c := range comparisons {
		losses = append(losses, c.Losses...)
	}
	for _, loss := range losses {
		if loss.Unexplained() {
			t.Errorf("%s, %s: passed in %d of %d runs, and in %d of %d with the stock binaries: %s (%s)\nmend it, or give the reason in known.go",
				loss.Set, loss.Kit, loss.Passed, loss.Of, loss.StockPassed, loss.StockOf, loss.Spec, loss.Message)
		}
	}
	outdated, err := conformance.Outdated(page.Known, losses)
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range outdated {
		t.Errorf("no recorded run of %s shows the difference %q: remove it from known.go", known.Set, known.Pattern)
	}
}

// TestLimitsOfHostsAreThoseOfTheStockBinaries holds for the recorded runs what a run of
// ours asks before it leaves a spec out.
func TestLimitsOfHostsAreThoseOfTheStockBinaries(t *testing.T) {
	for _, chapter := range recorded(t).Chapters {
		for _, runs := range chapter.Kits {
			newest := runs.Newest()
			if !conformance.IsStock(newest.Kit) {
				continue
			}
			var specs []string
			for _, result := range newest.Results {
				specs = append(specs, result.Spec)
			}
			excused, err := conformance.Excuses(specs, conformance.Skips(), runs)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range excused.Refused {
				t.Errorf("%s, %s: %s", chapter.Set.Name, newest.Kit, line)
			}
		}
	}
}

// TestEachComparedKitHasAYardstickOfItsHost: what is recorded of the stock binaries counts
// for the newest run of ours.
func TestEachComparedKitHasAYardstickOfItsHost(t *testing.T) {
	comparisons, err := recorded(t).Comparisons()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comparisons {
		if len(c.Stock) == 0 {
			t.Errorf("%s, %s: the runs of the stock binaries are of another host (%q): record the set with them again", c.Set, c.Ours.Kit(), c.Apart)
		}
	}
}

func TestEachRecordBelongsToASet(t *testing.T) {
	for _, folder := range []string{"results", "ratchet"} {
		paths, err := filepath.Glob(filepath.Join("..", folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if filepath.Base(path) == "soak" { // No set; see run.Tree.
				continue
			}
			if _, err := conformance.Lookup(filepath.Base(path)); err != nil {
				t.Errorf("%s: %v: the page does not show it", path, err)
			}
		}
	}
}

func TestRecordsOfAKitAreFew(t *testing.T) {
	for _, chapter := range recorded(t).Chapters {
		for _, runs := range chapter.Kits {
			if len(runs) > conformance.RunsKept {
				t.Errorf("%s, %s: %d runs are kept, want the last %d", chapter.Set.Name, runs.Kit(), len(runs), conformance.RunsKept)
			}
		}
	}
}
