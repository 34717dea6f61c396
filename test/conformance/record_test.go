package conformance

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func exampleRecord() Record {
	return Record{
		Set: "network", Kit: "kubelet-stock_proxy-stock-nftables_containerd",
		Date:     time.Date(2026, 11, 30, 16, 21, 5, 0, time.UTC),
		Versions: []string{"kubernetes v1.37.2", "containerd 1.6.20~ds1"},
		Build:    []string{"kube-proxy 0123456789ab"},
		Wall:     15*time.Minute + 2*time.Second,
		Load:     3.4,
		Procs:    6,
		Results: []Result{
			{Spec: "[sig-network] a", State: Passed, Time: 12300 * time.Millisecond},
			{Spec: "[sig-network] b", State: Failed, Time: time.Minute, Message: "timed out"},
		},
	}
}

func TestRecordSurvivesItsText(t *testing.T) {
	want := exampleRecord()
	var text bytes.Buffer
	if err := want.Encode(&text); err != nil {
		t.Fatal(err)
	}
	got, err := ParseRecord(&text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestParseRecordNamesTheBadLine(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"too few fields", "# set x\npassed\t1.0\n", "line 2"},
		{"unknown state", "perhaps\t1.0\tspec\n", `"perhaps"`},
		{"bad number", "passed\tsoon\tspec\n", `"soon"`},
		{"not a number", "passed\tNaN\tspec\n", `"NaN"`},
		{"huge", "passed\t1e300\tspec\n", `"1e300"`},
		{"bad number of processes", "# procs -6\n", `"-6"`},
		{"bad load", "# load NaN\n", `"NaN"`},
		{"bad date", "# date tomorrow\n", "tomorrow"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseRecord(strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestRecordMayLackWhatEarlierOnesLacked(t *testing.T) {
	got, err := ParseRecord(strings.NewReader("# set x\n# date 2026-11-30\n# version nodekit 1+2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC); !got.Date.Equal(want) || got.Load != 0 {
		t.Errorf("date %s and load %v, want %s and none", got.Date, got.Load, want)
	}
	if got.Version("nodekit") != "1+2" || got.Version("node") != "" {
		t.Errorf("versions %q and %q, want that of the program of exactly this name", got.Version("nodekit"), got.Version("node"))
	}
}

func TestRecordMayHoldWhatLaterOnesAdd(t *testing.T) {
	got, err := ParseRecord(strings.NewReader("# set x\n# colour red\npassed\t1.0\ta\n"))
	if err != nil || got.Set != "x" || len(got.Results) != 1 {
		t.Errorf("got %+v, %v, want the set and the result", got, err)
	}
}

func FuzzRecord(f *testing.F) {
	var text bytes.Buffer
	if err := exampleRecord().Encode(&text); err != nil {
		f.Fatal(err)
	}
	f.Add(text.String())
	f.Add("passed\t0.05\ta\tb\tc\n")
	f.Fuzz(func(t *testing.T, text string) {
		record, err := ParseRecord(strings.NewReader(text))
		if err != nil {
			return
		}
		record.Results = Latest(record.Results)
		var again bytes.Buffer
		if err := record.Encode(&again); err != nil {
			t.Fatal(err)
		}
		got, err := ParseRecord(&again)
		if err != nil {
			t.Fatalf("its own text is refused: %v", err)
		}
		if diff := cmp.Diff(record.Results, got.Results, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

func TestLatestKeepsTheLastAndWhatIsKnown(t *testing.T) {
	got := Latest([]Result{
		{Spec: "b", State: Failed, Message: "no"},
		{Spec: "a", State: Passed},
		{Spec: "a", State: Passed, Time: time.Second},
		{Spec: "b", State: Passed},
	})
	want := []Result{{Spec: "a", State: Passed, Time: time.Second}, {Spec: "b", State: Passed, Message: "at the second try: no"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got[0].SecondTry() || !got[1].SecondTry() {
		t.Errorf("passed at the second try: a %v, b %v, want only b", got[0].SecondTry(), got[1].SecondTry())
	}
}
