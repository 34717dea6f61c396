package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes one line for each finding: what it came to, the check, what was found and
// what to do.
func WriteText(w io.Writer, findings []Finding) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		line := oneLine(f.Message)
		if f.Advice != "" {
			line += " → " + oneLine(f.Advice)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Status, f.Check, line)
	}
	return t.Flush()
}

// WriteJSON writes the findings as a list of objects.
func WriteJSON(w io.Writer, findings []Finding) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if findings == nil {
		findings = []Finding{}
	}
	return e.Encode(findings)
}

// oneLine makes one line of what others said.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
