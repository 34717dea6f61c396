package conformance

import (
	"bytes"
	"fmt"
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
	ours[1].Load, ours[1].Procs, stock[0].Load, stock[0].Procs = 5, 6, 4, 6
	ours[1].Results[0].Time, stock[0].Results[0].Time = time.Minute, 2*time.Minute
	ours[1].Versions = ours[0].Versions
	stock[0].Versions = []string{"kubernetes v1.37.2", "containerd 1.6.20"}
	return Page{
		Chapters:  []Chapter{{Set: Set{Name: "set", About: "what there is"}, Kits: []Runs{ours, stock}}, {Set: Set{Name: "empty", About: "nothing"}}},
		Skips:     []Skip{{Pattern: "a|b", Fails: "no device", Reason: "no such device"}},
		Omissions: []Omission{{E2ENode, []string{"x [NodeConformance]"}, "it is slow"}},
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
		"| [set](#set) | kubelet ours, containerd | 2 | 1 | 0 of 2 | 1, **1 without a reason** | 0.50 |\n",
		"| [set](#set) | kubelet ours, containerd | 1 | 1m0s | 2m0s | 0.50 | 5.0, 4.0 | 2026-11-30 01:00, 2026-11-30 00:00 |\n",
		"All lines together: 1m0s with ours and 2m0s with the stock binaries, **0.50**",
		"| kubernetes | v1.37.2 |\n| containerd | 1.6, 1.6.20 |\n",
		"| kubelet ours, containerd | 2026-11-30 00:00 | 2 | 1 | 1 | 4 | 15m0s | 3.4 | – | abc |\n",
		"| kubelet ours, containerd | 2026-11-30 01:00 | 1 (1 at the second try) | 2 | 1 | 4 | 1m0s | 5.0 | 6 | abc |\n",
		"| b | kubelet ours, containerd | 1 of 2 | 1 of 1 | **no reason is written**; failed: no |\n",
		"<details><summary>1 skipped with all kits: no</summary>\n\n- c\n",
		"<details><summary>1 failed with all kits: no</summary>\n\n- d\n",
		"## empty\nNothing.\n\nNo run is recorded.\n",
		"| `a\\|b` | no such device | `no device` |\n",
		"1 of e2e_node: it is slow.\n\n- x [NodeConformance]\n",
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

// TestPageFoldsWhatIsAlike: by kit, state and message, whatever differs from run to run in
// a message.
func TestPageFoldsWhatIsAlike(t *testing.T) {
	const of = "a skipped, b skipped, limit skipped, gained passed, both failed, at times "
	ours := runsOf("kubelet-ours_containerd", of+"passed", of+"failed")
	stock := runsOf("kubelet-stock_containerd", "a skipped, b skipped, limit failed, gained failed, both failed, at times failed")
	for i := range ours {
		ours[i].Results[2].Message = hostLimit + "no device"
		ours[i].Results[4].Message = fmt.Sprintf("timed out after %d.1s, got 0x%d for test-%dabc", 120+i, i, i)
	}
	stock[0].Results[4].Message = "timed out after 121.2s, got 0xabc1 for test-z1"
	stock[0].Results[5].Message = "the pod hangs"
	text := written(t, Page{Chapters: []Chapter{{Set: Set{Name: "set"}, Kits: []Runs{ours, stock}}}})
	for _, want := range []string{
		"<summary>2 skipped with all kits: no</summary>\n\n- a\n- b\n",
		"<summary>1 failed with kubelet stock, containerd (1 of 1): no</summary>\n\n- gained\n",
		"<summary>1 failed with all kits: timed out after 121.1s, got 0x1 for test-1abc</summary>\n\n- both\n",
		"<summary>1 skipped with kubelet ours, containerd (2 of 2); failed with kubelet stock, containerd (1 of 1)</summary>\n\n- limit\n\n" +
			"In detail:\n\n- skipped with kubelet ours, containerd (2 of 2): host: no device\n- failed with kubelet stock, containerd (1 of 1): no\n",
		"<summary>1 failed with kubelet ours, containerd (1 of 2); failed with kubelet stock, containerd (1 of 1)</summary>\n\n- at times\n\n" +
			"In detail:\n\n- failed with kubelet ours, containerd (1 of 2): no\n- failed with kubelet stock, containerd (1 of 1): the pod hangs\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestPageSaysWhatIsNotCompared(t *testing.T) {
	ours, stock := runsOf("kubelet-ours_containerd", "a passed"), runsOf("kubelet-stock_containerd", "a passed")
	ours[0].Versions, stock[0].Versions = []string{"kernel 6.18.1"}, []string{"kernel 6.1.1"}
	none := []Runs{runsOf("kubelet-ours_containerd", "a failed"), runsOf("kubelet-stock_containerd", "a failed")}
	text := written(t, Page{Chapters: []Chapter{{Set: Set{Name: "elsewhere"}, Kits: []Runs{ours, stock}}, {Set: Set{Name: "none"}, Kits: none}}})
	for _, want := range []string{
		"[elsewhere](#elsewhere) with kubelet ours, containerd is not compared: the recorded runs of the stock binaries are of another host (kernel 6.1, not 6.18).",
		"[none](#none) with kubelet ours, containerd is not compared: the stock binaries pass none of its specs here.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "| [elsewhere]") || strings.Contains(text, "| [none]") {
		t.Error("it has a line in a table")
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
