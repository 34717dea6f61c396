package conformance

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	specs := []string{"a", "b", "c", "d", "e"}
	results := []Result{
		{Spec: "a", State: Passed},
		{Spec: "b", State: Failed, Message: "no"},
		{Spec: "c", State: Skipped},
		{Spec: "d", State: Passed},
	}
	stock := []Result{{Spec: "a", State: Passed}, {Spec: "b", State: Passed}, {Spec: "c", State: Skipped}, {Spec: "d", State: Failed}, {Spec: "e", State: Passed}}
	got := Judge(specs, results, Demand{Must: Ratchet{"a", "b", "e", "not asked for"}, Ratchet: Ratchet{"a"}, Stock: stock})
	want := Verdict{
		Count:    Count{Passed: 2, Failed: 1, Skipped: 1, Missing: 1},
		Stock:    Count{Passed: 3, Failed: 1, Skipped: 1},
		Lost:     []Result{{Spec: "b", State: Failed, Message: "no"}, {Spec: "e", Message: "it did not run to its end"}},
		Gained:   []string{"d"},
		Failures: []Result{{Spec: "b", State: Failed, Message: "no"}},
		Differences: []Difference{
			{Spec: "d", Have: Passed, Stock: Failed},
			{Spec: "b", Have: Failed, Stock: Passed, Message: "no"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	if !got.Failed() {
		t.Error("a run that lost specs has not failed")
	}
}

func TestVerdictFails(t *testing.T) {
	for _, test := range []struct {
		name    string
		specs   []string
		results []Result
		must    Ratchet
		want    bool
	}{
		{"all as before", []string{"a"}, []Result{{Spec: "a", State: Passed}}, Ratchet{"a"}, false},
		{"a spec fails that need not pass", []string{"a"}, []Result{{Spec: "a", State: Failed}}, nil, false},
		{"a spec is lost", []string{"a"}, []Result{{Spec: "a", State: Failed}}, Ratchet{"a"}, true},
		{"a spec skips itself that has passed", []string{"a"}, []Result{{Spec: "a", State: Skipped}}, Ratchet{"a"}, true},
		{"a spec has no result", []string{"a"}, nil, nil, true},
		{"passed at the second try", []string{"a"}, []Result{{Spec: "a", State: Failed}, {Spec: "a", State: Passed}}, Ratchet{"a"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Judge(test.specs, test.results, Demand{Must: test.must}).Failed(); got != test.want {
				t.Errorf("failed is %v, want %v", got, test.want)
			}
		})
	}
}

func TestRatchetOnlyGrows(t *testing.T) {
	ratchet, err := ParseRatchet(strings.NewReader("# comment\nb\n\na\nb\n"))
	if err != nil {
		t.Fatal(err)
	}
	tighter, added := ratchet.Tighten([]Result{{Spec: "c", State: Passed}, {Spec: "a", State: Failed}, {Spec: "d", State: Skipped}})
	if diff := cmp.Diff(Ratchet{"a", "b", "c"}, tighter); diff != "" {
		t.Errorf("ratchet (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c"}, added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	var text bytes.Buffer
	if err := tighter.Encode(&text); err != nil {
		t.Fatal(err)
	}
	again, err := ParseRatchet(&text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tighter, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

func FuzzParseRatchet(f *testing.F) {
	f.Add("# comment\n[sig-node] Pods should run\n")
	f.Fuzz(func(t *testing.T, text string) {
		ratchet, err := ParseRatchet(strings.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := ratchet.Encode(&again); err != nil {
			t.Fatal(err)
		}
		if got, err := ParseRatchet(&again); err != nil || cmp.Diff(ratchet, got) != "" {
			t.Errorf("%q, read again %q: %v", ratchet, got, err)
		}
	})
}
