package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// runsOf makes runs of a kit, each from words like "spec passed, other spec failed".
func runsOf(kit string, texts ...string) Runs {
	var runs Runs
	for hour, text := range texts {
		run := Record{Set: "set", Kit: kit, Date: time.Date(2026, 11, 30, hour, 0, 0, 0, time.UTC), Wall: time.Minute}
		for end := range strings.SplitSeq(text, ", ") {
			at := strings.LastIndexByte(end, ' ')
			result := Result{Spec: end[:at], State: State(end[at+1:])}
			if result.State != Passed {
				result.Message = "no"
			}
			run.Results = append(run.Results, result)
		}
		runs = append(runs, run)
	}
	return runs
}

func TestCompare(t *testing.T) {
	const stockKit, ourKit = "kubelet-stock_containerd", "kubelet-ours_containerd"
	loss := func(spec, message string, passed, of, stockPassed, stockOf int) Loss {
		return Loss{Set: "set", Kit: ourKit, Spec: spec, Message: message, Passed: passed, Of: of, StockPassed: stockPassed, StockOf: stockOf}
	}
	explained := loss("a", "failed: no", 0, 1, 1, 1)
	explained.Reason = "it can't be"
	atTimes := loss("a", "failed: no", 2, 3, 1, 1)
	atTimes.Reason = explained.Reason
	for _, test := range []struct {
		name        string
		ours, stock []string
		known       []Known
		want        Comparison
	}{
		{
			name: "all pass", ours: []string{"a passed", "a passed", "a passed"}, stock: []string{"a passed"},
			want: Comparison{InARow: 3},
		},
		{
			name: "what stock does not pass is no loss", ours: []string{"a failed, b passed"}, stock: []string{"a failed, b skipped"},
			want: Comparison{InARow: 1, Gained: []string{"b"}},
		},
		{
			name: "a loss ends the row", ours: []string{"a passed", "a failed", "a passed"}, stock: []string{"a passed", "a passed"},
			want: Comparison{InARow: 1, Losses: []Loss{loss("a", "failed: no", 2, 3, 2, 2)}},
		},
		{
			name: "the newest run has lost one", ours: []string{"a passed", "a skipped"}, stock: []string{"a passed"},
			want: Comparison{Losses: []Loss{loss("a", "skipped: no", 1, 2, 1, 1)}},
		},
		{
			name: "a spec that did not run is lost", ours: []string{"b passed"}, stock: []string{"a passed, b passed"},
			want: Comparison{Losses: []Loss{loss("a", "it was not in the set then", 0, 1, 1, 1)}},
		},
		{
			name: "with a reason the row goes on", ours: []string{"a failed"}, stock: []string{"a passed"},
			known: []Known{{Set: "other", Pattern: "a", Reason: "wrong"}, {Set: "set", Pattern: "^a$", Reason: "it can't be"}},
			want:  Comparison{InARow: 1, Losses: []Loss{explained}},
		},
		{
			name: "a reason does not mend a row", ours: []string{"a passed", "a failed", "a passed"}, stock: []string{"a passed"},
			known: []Known{{Set: "set", Pattern: "^a$", Reason: "it can't be"}},
			want:  Comparison{InARow: 1, Losses: []Loss{atTimes}},
		},
		{
			name: "what comes and goes with both is tolerated", ours: []string{"a passed", "a failed"}, stock: []string{"a failed", "a passed"},
			want: Comparison{InARow: 2, Losses: []Loss{loss("a", "failed: no", 1, 2, 1, 2)}},
		},
		{
			name: "but not what never passes with ours", ours: []string{"a failed"}, stock: []string{"a failed", "a passed"},
			want: Comparison{Losses: []Loss{loss("a", "failed: no", 0, 1, 1, 2)}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			chapter := Chapter{Set: Set{Name: "set"}, Kits: []Runs{runsOf(ourKit, test.ours...), runsOf(stockKit, test.stock...)}}
			got, err := chapter.Compare(test.known)
			if err != nil || len(got) != 1 {
				t.Fatalf("got %v, %v, want one comparison", got, err)
			}
			test.want.Set = "set"
			if diff := cmp.Diff(test.want, got[0], cmpopts.IgnoreFields(Comparison{}, "Ours", "Stock")); diff != "" {
				t.Errorf("comparison (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyAKitWithAYardstickIsCompared(t *testing.T) {
	for _, test := range []struct {
		name string
		kits []string
		want []string
	}{
		{"stock alone", []string{"kubelet-stock_containerd"}, nil},
		{"another runtime", []string{"kubelet-ours_containerd", "kubelet-stock_containerd2"}, nil},
		{"ours and stock", []string{"kubelet-ours_containerd2", "kubelet-stock_containerd2"}, []string{"kubelet-stock_containerd2"}},
		{
			"kube-proxy of ours",
			[]string{"kubelet-stock_proxy-ours-iptables_containerd", "kubelet-stock_proxy-stock-iptables_containerd", "kubelet-stock_proxy-stock-nftables_containerd"},
			[]string{"kubelet-stock_proxy-stock-iptables_containerd"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			chapter := Chapter{}
			for _, kit := range test.kits {
				chapter.Kits = append(chapter.Kits, runsOf(kit, "a passed"))
			}
			comparisons, err := chapter.Compare(nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range comparisons {
				got = append(got, c.Stock.Kit())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("compared with (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunsOfAnotherHostAreNotCompared(t *testing.T) {
	ours, stock := runsOf("kubelet-ours_containerd", "a failed", "a passed"), runsOf("kubelet-stock_containerd", "a passed, b passed", "a passed")
	for i, kernel := range []string{"kernel 6.1", "kernel 6.18"} {
		ours[i].Versions, stock[i].Versions = []string{kernel}, []string{kernel}
	}
	got, err := Chapter{Kits: []Runs{ours, stock}}.Compare(nil)
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v, want one comparison", got, err)
	}
	if c := got[0]; len(c.Ours) != 1 || len(c.Stock) != 1 || c.InARow != 1 || c.Losses != nil {
		t.Errorf("compared %d with %d runs: %d in a row, lost %v; want the newest of each, without a loss", len(c.Ours), len(c.Stock), c.InARow, c.Losses)
	}
	if diff := cmp.Diff([]string{"kernel 6.1, not 6.18"}, got[0].Apart); diff != "" {
		t.Errorf("why others are not compared (-want +got):\n%s", diff)
	}
}

func TestSteadyIsWhatPassedInEachRun(t *testing.T) {
	got := runsOf("s", "a passed, b passed, c failed", "c passed, b passed, a skipped").Steady()
	if diff := cmp.Diff([]string{"b"}, got); diff != "" {
		t.Errorf("steady (-want +got):\n%s", diff)
	}
}
