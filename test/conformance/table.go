package conformance

import (
	"fmt"
	"io"
	"strings"
)

// Summary is what is printed of a run.
type Summary struct {
	Set   string `json:"set"`
	Kit   string `json:"kit"`
	Title string `json:"title"`
	// Stock is true when the run itself is one of the stock binaries.
	Stock    bool     `json:"stock"`
	Versions []string `json:"versions"`
	// Wall is in seconds.
	Wall    float64  `json:"wallSeconds"`
	Verdict Verdict  `json:"verdict"`
	Setup   []string `json:"setup,omitempty"`
	// Notes say which recorded results do not count on this host, and what that means.
	Notes []string `json:"notes,omitempty"`
	Dir   string   `json:"dir"`
}

// WriteTable writes the summary for people: the counts beside the stock ones, then each
// difference by its name.
func (s Summary) WriteTable(w io.Writer) error {
	var b strings.Builder
	v := s.Verdict
	fmt.Fprintf(&b, "%s: %s (%s)\n\n", s.Set, s.Title, strings.Join(s.Versions, ", "))
	fmt.Fprintf(&b, "%-8s %6s %8s\n", "", "here", "recorded")
	fmt.Fprintf(&b, "%-8s %6s %8s\n", "", "", "stock")
	for _, row := range []struct {
		name        string
		here, stock int
	}{
		{"passed", v.Count.Passed, v.Stock.Passed},
		{"failed", v.Count.Failed, v.Stock.Failed},
		{"skipped", v.Count.Skipped, v.Stock.Skipped},
		{"missing", v.Count.Missing, v.Stock.Missing},
	} {
		fmt.Fprintf(&b, "%-8s %6d %8d\n", row.name, row.here, row.stock)
	}
	fmt.Fprintf(&b, "%-8s %6d\n", "all", v.Count.Total())
	s.writeDetails(&b)
	fmt.Fprintf(&b, "\n%.0f s; reports and logs: %s\n", s.Wall, s.Dir)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Summary) writeDetails(b *strings.Builder) {
	v := s.Verdict
	section := func(title string, count int) bool {
		if count > 0 {
			fmt.Fprintf(b, "\n%s (%d)\n", title, count)
		}
		return count > 0
	}
	if section("LOST: passed before, or always with the stock binaries, and not now", len(v.Lost)) {
		writeResults(b, v.Lost)
	}
	if section("Differences from the stock binaries", len(v.Differences)) {
		for _, d := range v.Differences {
			fmt.Fprintf(b, "  %s, stock %s: %s%s\n", d.Have, d.Stock, d.Spec, because(d.Message))
		}
	}
	if section("Failed", len(v.Failures)) {
		writeResults(b, v.Failures)
	}
	if !s.Stock && section("Passed and not in the ratchet yet (make ratchet)", len(v.Gained)) {
		writeLines(b, v.Gained)
	}
	if section("Outside of specs", len(s.Setup)) {
		writeLines(b, s.Setup)
	}
	if section("Limits and recorded results that do not count here", len(s.Notes)) {
		writeLines(b, s.Notes)
	}
}

func writeLines(b *strings.Builder, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

func writeResults(b *strings.Builder, results []Result) {
	for _, r := range results {
		fmt.Fprintf(b, "  %s%s\n", r.Spec, because(r.Message))
	}
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return "\n      " + message
}
