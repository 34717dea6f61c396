package record

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// CheckGolden compares lines with those of a file, which may have comments that begin
// with #, and lines that begin with "? ": those may be missing from got. With update
// it writes the file instead, and keeps the comments at its head.
func CheckGolden(tb testing.TB, file string, got []string, update bool) {
	tb.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !update {
		tb.Fatal(err)
	}
	var head strings.Builder
	var want []string
	for line := range strings.Lines(string(content)) {
		line, optional := strings.CutPrefix(strings.TrimSpace(line), "? ")
		switch {
		case strings.HasPrefix(line, "#") && len(want) == 0:
			head.WriteString(line + "\n")
		case strings.HasPrefix(line, "#"), optional && !slices.Contains(got, line):
		default:
			want = append(want, line)
		}
	}
	if update {
		if err := os.WriteFile(file, []byte(head.String()+strings.Join(append(got, ""), "\n")), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("calls differ from %s; -update rewrites it (-want +got):\n%s", file, diff)
	}
}
