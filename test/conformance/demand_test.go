package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMust(t *testing.T) {
	known := []Known{{Set: "set", Pattern: "^known$", Reason: "it can't be"}, {Set: "other", Pattern: "steady", Reason: "wrong"}}
	stock := runsOf("stock", "known passed, steady passed, at times passed", "known passed, steady passed, at times failed")
	for _, test := range []struct {
		name    string
		ratchet Ratchet
		stock   Runs
		want    Ratchet
	}{
		{"nothing is known", nil, nil, nil},
		{"what has passed before", Ratchet{"a"}, nil, Ratchet{"a"}},
		{"what the stock binaries always pass", nil, stock, Ratchet{"steady"}},
		{"both", Ratchet{"a", "steady"}, stock, Ratchet{"a", "steady"}},
		{"a known difference that has passed", Ratchet{"known"}, stock, Ratchet{"known", "steady"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Must("set", test.ratchet, test.stock, known)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("must pass (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Must("set", nil, stock, []Known{{Pattern: "("}}); err == nil {
		t.Error("a pattern that does not compile is no error")
	}
}

func TestAgain(t *testing.T) {
	results := []Result{
		{Spec: "failed", State: Failed},
		{Spec: "hopeless", State: Failed},
		{Spec: "at times", State: Failed},
		{Spec: "passed", State: Passed},
		{Spec: "skipped", State: Skipped},
		{Spec: "lost by a skip", State: Skipped},
		{Spec: "of another part", State: Failed},
	}
	ran := []string{"failed", "hopeless", "at times", "passed", "skipped", "lost by a skip"}
	stock := runsOf("stock", "hopeless failed, at times failed", "hopeless failed, at times passed")
	for _, test := range []struct {
		name   string
		demand Demand
		stock  Runs
		want   []string
	}{
		{"nothing is known", Demand{}, nil, []string{"at times", "failed", "hopeless"}},
		{"what the stock binaries always fail is left", Demand{}, stock, []string{"at times", "failed"}},
		{"but not what was lost", Demand{Must: Ratchet{"hopeless", "lost by a skip"}}, stock, []string{"at times", "failed", "hopeless", "lost by a skip"}},
		{"in a cluster that is too small", Demand{Must: Ratchet{"lost by a skip"}, MaySkip: true}, stock, []string{"at times", "failed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.demand.Again(ran, results, test.stock)); diff != "" {
				t.Errorf("once more (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExcusesNeedProof(t *testing.T) {
	skips := []Skip{{Pattern: `^dummy`, Fails: `^no$`, Reason: "no dummy device"}}
	specs := []string{"dummy device", "other"}
	otherwise := runsOf("stock", "dummy device failed", "dummy device failed")
	otherwise[1].Results[0].Message = "the disk is full"
	for _, test := range []struct {
		name    string
		stock   Runs
		refused string
	}{
		{"stock fails it", runsOf("stock", "dummy device failed", "dummy device failed"), ""},
		{"stock skips it", runsOf("stock", "dummy device skipped"), ""},
		{"stock fails it, and had no such spec before", runsOf("stock", "other passed", "dummy device failed"), ""},
		{"stock passes it", runsOf("stock", "dummy device passed"), "the stock binaries pass it"},
		{"stock has passed it once", runsOf("stock", "dummy device passed", "dummy device failed"), "the stock binaries pass it"},
		{"stock fails it for another reason", otherwise, "otherwise: the disk is full"},
		{"nothing is known of stock", nil, "no recorded run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Excuses(specs, skips, test.stock)
			if err != nil {
				t.Fatal(err)
			}
			want := Excused{Run: []string{"other"}, Results: []Result{{Spec: "dummy device", State: Skipped, Message: "host: no dummy device"}}}
			if test.refused != "" {
				want = Excused{Run: specs, Refused: got.Refused}
				if len(got.Refused) != 1 || !strings.Contains(got.Refused[0], test.refused) {
					t.Errorf("refused for %q, want %q", got.Refused, test.refused)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("sorted (-want +got):\n%s", diff)
			}
		})
	}
	for _, bad := range []Skip{{Pattern: "("}, {Pattern: "^dummy", Fails: "("}} {
		if _, err := Excuses(specs, []Skip{bad}, nil); err == nil {
			t.Errorf("%+v does not compile and is no error", bad)
		}
	}
}

func TestEachSkipSaysHowAndWhy(t *testing.T) {
	for _, skip := range Skips() {
		_, err := skip.refuted("spec", nil)
		if _, _, found := skipFor("spec", []Skip{skip}); err != nil || found != nil || skip.Reason == "" || skip.Fails == "" {
			t.Errorf("skip %+v: %v, %v", skip, err, found)
		}
	}
}
