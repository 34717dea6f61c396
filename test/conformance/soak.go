package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Soak is what the page tells of hours of a node's life under churn: a part of the report
// that "make soak" writes.
type Soak struct {
	// Kit, Versions and Date say what ran on which day, For how long the churn lasted.
	Kit      string   `json:"kit"`
	Versions []string `json:"versions"`
	Date     string   `json:"date"`
	For      string   `json:"for"`
	// Facts are what must hold.
	Facts []SoakFact `json:"facts"`
	// Work is how often something was done, by its name.
	Work map[string]int `json:"work"`
	// Requests are what clients got while Services were rolled out, by the client's name.
	Requests map[string]SoakRequests `json:"requests"`
}

// SoakFact is something that must hold, and whether it did.
type SoakFact struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// SoakRequests counts a client's requests.
type SoakRequests struct {
	Sent   int `json:"sent"`
	Failed int `json:"failed"`
}

// ParseSoak reads the report of a soak.
func ParseSoak(r io.Reader) (Soak, error) {
	var s Soak
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return Soak{}, fmt.Errorf("read the report of a soak: %w", err)
	}
	if s.Kit == "" || len(s.Facts) == 0 {
		return Soak{}, errors.New("read the report of a soak: it has no kit or no facts")
	}
	return s, nil
}

// writeSoaks writes the chapter about them.
func writeSoaks(b *strings.Builder, soaks []Soak) {
	b.WriteString("\n## Soak\n")
	if len(soaks) == 0 {
		b.WriteString("No soak is recorded.\n")
	}
	for _, s := range soaks {
		s.write(b)
	}
}

func (s Soak) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s of churn with %s, %s (%s).\n\n| must hold | held | seen |\n|---|---|---|\n",
		s.For, s.Kit, s.Date, escape(strings.Join(s.Versions, ", ")))
	for _, fact := range s.Facts {
		held := "yes"
		if !fact.OK {
			held = "**no**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", escape(fact.Name), held, escape(fact.Detail))
	}
	var work, requests []string
	for _, name := range slices.Sorted(maps.Keys(s.Work)) {
		work = append(work, fmt.Sprintf("%s %d", name, s.Work[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Requests)) {
		r := s.Requests[name]
		requests = append(requests, fmt.Sprintf("%s %d, of which %d failed", name, r.Sent, r.Failed))
	}
	fmt.Fprintf(b, "\nWork: %s. Requests: %s.\n", escape(strings.Join(work, "; ")), escape(strings.Join(requests, "; ")))
}
