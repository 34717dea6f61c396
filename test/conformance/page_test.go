package conformance

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// examplePage has a set with runs of ours and of stock, and one without runs.
func examplePage() Page {
	ours := runsOf("kubelet-ours_containerd", "a passed, b passed, c skipped, d failed", "a passed, b failed, c skipped, d failed")
	stock := runsOf("kubelet-stock_containerd", "a passed, b passed, c skipped, d failed")
	ours[0].Load, ours[0].Wall, ours[0].Versions = 3.4, 15*time.Minute, []string{"kubernetes v1.37.2", "nodekit abc", "containerd 1.6"}
	ours[1].Results[0].Message = secondTry + "timed out"
	stock[0].Versions = []string{"kubernetes v1.37.2", "containerd 2.4"}
	return Page{
		Chapters: []Chapter{{Set: Set{Name: "set", About: "what there is"}, Kits: []Runs{ours, stock}}, {Set: Set{Name: "empty", About: "nothing"}}},
		Skips:    []Skip{{Pattern: "a|b", Reason: "no such device"}},
	}
}

func written(t *testing.T, page Page) string {
	t.Helper()
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestPage(t *testing.T) {
	text := written(t, examplePage())
	for _, want := range []string{
		"| [set](#set) | kubelet ours, containerd | 2 | 1 | 0 of 2 | 1, **1 without a reason** | 8.00 |\n",
		"takes 8m0s with ours and 1m0s with the stock binaries: **8.00**",
		"| kubernetes | v1.37.2 |\n| containerd | 1.6, 2.4 |\n",
		"| kubelet ours, containerd | 2026-11-30 00:00 | 2 | 1 | 1 | 4 | 15m0s | 3.4 | abc |\n",
		"| kubelet ours, containerd | 2026-11-30 01:00 | 1 (1 at the second try) | 2 | 1 | 4 | 1m0s | – |  |\n",
		"| b | kubelet ours, containerd | 1 of 2 | 1 of 1 | **no reason is written**; failed: no |\n",
		"<details><summary>1 skipped with all kits: no</summary>\n\n- c\n",
		"<details><summary>1 failed with all kits: no</summary>\n\n- d\n",
		"## empty\nNothing.\n\nNo run is recorded.\n",
		"| `a\\|b` | no such device |\n",
		"No soak is recorded.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "- b\n") {
		t.Error("a loss is listed among what neither passes, too")
	}
}

func TestPageGivesTheReasonOfADifference(t *testing.T) {
	page := examplePage()
	page.Known = []Known{{Set: "set", Pattern: "^b$", Reason: "the disk is too small"}}
	text := written(t, page)
	if !strings.Contains(text, "| 1 of 2 | 1 of 1 | the disk is too small |") || strings.Contains(text, "no reason is written") {
		t.Errorf("want the reason, got\n%s", text)
	}
	page.Known[0].Pattern = "("
	if err := page.Write(&bytes.Buffer{}); err == nil {
		t.Error("a pattern that does not compile is no error")
	}
}

func TestPageFoldsWhatIsAlike(t *testing.T) {
	ours := runsOf("kubelet-ours_containerd", "a skipped, b skipped, c skipped, gained passed")
	stock := runsOf("kubelet-stock_containerd", "a skipped, b skipped, c failed, gained failed")
	ours[0].Results[2].Message = hostLimit + "no device"
	text := written(t, Page{Chapters: []Chapter{{Set: Set{Name: "set"}, Kits: []Runs{ours, stock}}}})
	for _, want := range []string{
		"<summary>2 skipped with all kits: no</summary>\n\n- a\n- b\n",
		"<summary>1 skipped with all kits: host: no device</summary>\n\n- c\n",
		"<summary>1 failed with kubelet stock, containerd (1 of 1): no</summary>\n\n- gained\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestKnownDifferenceThatIsNoMore(t *testing.T) {
	known := []Known{{Set: "set", Pattern: "^a$", Reason: "x"}, {Set: "set", Pattern: "^b$", Reason: "x"}, {Set: "other", Pattern: "^a$", Reason: "x"}}
	got, err := Outdated(known, []Loss{{Set: "set", Spec: "a"}})
	if err != nil || len(got) != 2 || got[0] != known[1] || got[1] != known[2] {
		t.Errorf("got %v, %v, want the second and third", got, err)
	}
	if _, err := Outdated([]Known{{Pattern: "("}}, nil); err == nil {
		t.Error("a pattern that does not compile is no error")
	}
}
