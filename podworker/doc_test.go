package podworker

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// edge is one arrow of the diagram.
type edge struct{ From, To string }

// edgesOf reads the arrows of a line such as "A ──▶ B ──▶ C" or "A ◀── B".
func edgesOf(line string) []edge {
	var edges []edge
	fields := strings.Fields(line)
	for i := 1; i+1 < len(fields); i++ {
		switch {
		case strings.HasSuffix(fields[i], "▶"):
			edges = append(edges, edge{fields[i-1], fields[i+1]})
		case strings.HasPrefix(fields[i], "◀"):
			edges = append(edges, edge{fields[i+1], fields[i-1]})
		}
	}
	return edges
}

// TestDiagramShowsLegalTransitions compares the diagram of doc.go with legal.
func TestDiagramShowsLegalTransitions(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[edge]bool{}
	for line := range strings.Lines(f.Doc.Text()) {
		for _, e := range edgesOf(line) {
			drawn[e] = true
		}
	}
	want := map[edge]bool{}
	for _, from := range phases() {
		for _, to := range phases() {
			if legal(from, to) {
				want[edge{from.String(), to.String()}] = true
			}
		}
	}
	if diff := cmp.Diff(want, drawn); diff != "" {
		t.Errorf("diagram in doc.go differs from legal (-want +got):\n%s", diff)
	}
}

// TestPhasesAreComplete fails when a phase has no name or is missing in phases.
func TestPhasesAreComplete(t *testing.T) {
	const invalid = "invalid phase"
	for i, p := range phases() {
		if int(p) != i || p.String() == invalid {
			t.Errorf("phases()[%d] = %d %q", i, p, p)
		}
	}
	if next := Phase(len(phases())); next.String() != invalid {
		t.Errorf("phase %d is called %q but missing in phases()", next, next)
	}
}
