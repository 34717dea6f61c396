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
// it writes the file instead, and keeps the comments at its head and what may be
// missing.
func CheckGolden(tb testing.TB, file string, got []string, update bool) {
	tb.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !update {
		tb.Fatal(err)
	}
	var head strings.Builder
	var want, optional []string
	for line := range strings.Lines(string(content)) {
		line, may := strings.CutPrefix(strings.TrimSpace(line), "? ")
		switch {
		case strings.HasPrefix(line, "#"):
			head.WriteString(line + "\n")
		case may:
			optional = append(optional, line)
		default:
			want = append(want, line)
		}
	}
	got = slices.DeleteFunc(slices.Clone(got), func(line string) bool { return slices.Contains(optional, line) })
	slices.Sort(got)
	if update {
		for _, line := range got {
			head.WriteString(line + "\n")
		}
		slices.Sort(optional)
		for _, line := range optional {
			head.WriteString("? " + line + "\n")
		}
		if err := os.WriteFile(file, []byte(head.String()), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("calls differ from %s; -update rewrites it (-want +got):\n%s", file, diff)
	}
}
