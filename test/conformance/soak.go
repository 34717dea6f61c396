package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Soak is the outcome of a long run of node programs under churn.
type Soak struct {
	// Date is when it ended, and Duration how long the churn lasted, as Go writes it.
	Date     time.Time `json:"date"`
	Duration string    `json:"duration"`
	// Versions name the programs and the kernel, as in a [Record].
	Versions []string `json:"versions"`
	// Work is what was done.
	Work []SoakWork `json:"work"`
	// Checks are what had to hold at the end.
	Checks []SoakCheck `json:"checks"`
}

// SoakWork is how often something was done.
type SoakWork struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// SoakCheck is a measure that must not grow, or a count that must stay zero.
type SoakCheck struct {
	Name string `json:"name"`
	// Begin, End and Limit are with their units.
	Begin string `json:"begin"`
	End   string `json:"end"`
	Limit string `json:"limit"`
	OK    bool   `json:"ok"`
}

// ParseSoak reads the JSON that a soak leaves.
func ParseSoak(r io.Reader) (*Soak, error) {
	var s Soak
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("read the soak's result: %w", err)
	}
	if s.Date.IsZero() || len(s.Checks) == 0 {
		return nil, fmt.Errorf("read the soak's result: it has no date or no checks")
	}
	return &s, nil
}

func (s *Soak) write(b *strings.Builder) {
	b.WriteString("\n## Soak\n")
	if s == nil {
		b.WriteString("No soak is recorded.\n")
		return
	}
	fmt.Fprintf(b, "%s of churn, ended %s (%s).\n\n| done | times |\n|---|---|\n", s.Duration, s.Date.UTC().Format("2006-01-02 15:04 UTC"), escape(strings.Join(s.Versions, ", ")))
	for _, w := range s.Work {
		fmt.Fprintf(b, "| %s | %s |\n", escape(w.Name), escape(w.Value))
	}
	b.WriteString("\n| check | begin | end | limit | held |\n|---|---|---|---|---|\n")
	for _, c := range s.Checks {
		held := "yes"
		if !c.OK {
			held = "**no**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", escape(c.Name), escape(c.Begin), escape(c.End), escape(c.Limit), held)
	}
}
