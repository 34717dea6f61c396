package conformance

import (
	"strings"
	"testing"
)

const soakText = `{"date": "2026-11-30T18:00:00Z", "duration": "2h0m0s", "versions": ["kernel 6.18"],
  "work": [{"name": "pods made", "value": "812"}],
  "checks": [{"name": "goroutines", "begin": "210", "end": "212", "limit": "230", "ok": true},
             {"name": "failed requests", "begin": "0", "end": "1", "limit": "0", "ok": false}]}`

func TestSoakOnThePage(t *testing.T) {
	soak, err := ParseSoak(strings.NewReader(soakText))
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, Page{Soak: soak})
	for _, want := range []string{
		"2h0m0s of churn, ended 2026-11-30 18:00 UTC (kernel 6.18).", "| pods made | 812 |\n",
		"| goroutines | 210 | 212 | 230 | yes |\n", "| failed requests | 0 | 1 | 0 | **no** |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestParseSoakRefusesWhatSaysNothing(t *testing.T) {
	for _, text := range []string{"", "{}", `{"date": "2026-11-30T18:00:00Z"}`, `{"checks": [{"name": "x"}]}`, `{"colour": "red"}`} {
		if _, err := ParseSoak(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken for a result", text)
		}
	}
}

func FuzzParseSoak(f *testing.F) {
	f.Add(soakText)
	f.Fuzz(func(t *testing.T, text string) {
		if soak, err := ParseSoak(strings.NewReader(text)); err == nil && (soak.Date.IsZero() || len(soak.Checks) == 0) {
			t.Errorf("%+v has no date or no checks", soak)
		}
	})
}
