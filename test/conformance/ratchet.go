package conformance

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Ratchet is the names of specs that have passed with our binaries and must go on
// passing, sorted.
type Ratchet []string

// ParseRatchet reads a ratchet's file: a name per line, and comments that begin with #.
func ParseRatchet(r io.Reader) (Ratchet, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var specs Ratchet
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			specs = append(specs, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read ratchet: %w", err)
	}
	slices.Sort(specs)
	return slices.Compact(specs), nil
}

// Encode writes the ratchet's file.
func (r Ratchet) Encode(w io.Writer) error {
	const heading = "# Specs that pass and must go on passing. \"make ratchet\" adds to this file; nothing else should change it.\n"
	var b strings.Builder
	b.WriteString(heading)
	for _, spec := range r {
		fmt.Fprintln(&b, spec)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Tighten returns the ratchet with the specs that passed added, and those.
func (r Ratchet) Tighten(results []Result) (tighter Ratchet, added []string) {
	for _, result := range In(Latest(results), Passed) {
		if _, found := slices.BinarySearch(r, result.Spec); !found {
			added = append(added, result.Spec)
		}
	}
	tighter = append(slices.Clone(r), added...)
	slices.Sort(tighter)
	return tighter, added
}

// Lost returns the specs of the ratchet that have not passed, as far as they belong to
// the specs that were asked for.
func (r Ratchet) Lost(asked []string, results []Result) []Result {
	have := map[string]Result{}
	for _, result := range Latest(results) {
		have[result.Spec] = result
	}
	var lost []Result
	for _, spec := range r {
		if !slices.Contains(asked, spec) {
			continue
		}
		switch result, ran := have[spec]; {
		case !ran:
			lost = append(lost, Result{Spec: spec, Message: "it did not run to its end"})
		case result.State != Passed:
			lost = append(lost, result)
		}
	}
	return lost
}
