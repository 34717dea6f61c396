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
	head, want, optional := readGolden(string(content))
	got = slices.DeleteFunc(slices.Clone(got), func(line string) bool { return slices.Contains(optional, line) })
	slices.Sort(got)
	if update {
		for _, line := range got {
			head += line + "\n"
		}
		slices.Sort(optional)
		for _, line := range optional {
			head += "? " + line + "\n"
		}
		if err := os.WriteFile(file, []byte(head), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("calls differ from %s; -update rewrites it (-want +got):\n%s", file, diff)
	}
}

// Missing returns the lines of a file that have to be in got and are not. A file that is
// not there misses nothing.
func Missing(file string, got []string) []string {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	_, want, _ := readGolden(string(content))
	return slices.DeleteFunc(want, func(line string) bool { return slices.Contains(got, line) })
}

// readGolden returns the comments of a file, its lines, and those that may be missing.
func readGolden(content string) (head string, want, optional []string) {
	for line := range strings.Lines(content) {
		line, may := strings.CutPrefix(strings.TrimSpace(line), "? ")
		switch {
		case strings.HasPrefix(line, "#"):
			head += line + "\n"
		case may:
			optional = append(optional, line)
		default:
			want = append(want, line)
		}
	}
	return head, want, optional
}
