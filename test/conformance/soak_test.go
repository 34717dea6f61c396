package conformance

import (
	"strings"
	"testing"
)

const soakText = `{"kit": "kubelet ours", "versions": ["kernel 6.18"], "date": "2026-11-30", "for": "2h0m0s", "seed": 1,
  "work": {"pods made": 812, "crashes": 3}, "requests": {"new connections": {"sent": 1000, "failed": 1, "slow": 2}},
  "facts": [{"name": "goroutines", "ok": true, "detail": "210 to 212"}, {"name": "failed requests", "ok": false, "detail": "1"}]}`

func TestSoakOnThePage(t *testing.T) {
	soak, err := ParseSoak(strings.NewReader(soakText))
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, Page{Soaks: []Soak{soak}})
	for _, want := range []string{
		"2h0m0s of churn with kubelet ours, 2026-11-30 (kernel 6.18).", "| goroutines | yes | 210 to 212 |\n",
		"| failed requests | **no** | 1 |\n", "Work: crashes 3; pods made 812. Requests: new connections 1000, of which 1 failed.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestParseSoakRefusesWhatSaysNothing(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", `{"kit": "kubelet ours"}`, `{"facts": [{"name": "x"}]}`} {
		if _, err := ParseSoak(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken for a report", text)
		}
	}
}

func FuzzParseSoak(f *testing.F) {
	f.Add(soakText)
	f.Fuzz(func(t *testing.T, text string) {
		if soak, err := ParseSoak(strings.NewReader(text)); err == nil && (soak.Kit == "" || len(soak.Facts) == 0) {
			t.Errorf("%+v has no kit or no facts", soak)
		}
	})
}
