package conformance

import (
	"fmt"
	"regexp"
	"slices"
)

// Known is a difference that somebody has looked into: specs that the stock binaries pass
// on this host and ours do not.
type Known struct {
	// Set is the name of the set, and Pattern a regular expression over the names of
	// specs.
	Set, Pattern string
	// Reason says why it is so, and why it stays so.
	Reason string
}

// Differences returns the known differences. None is left. A difference that is not among
// them fails a test, as does one that is no more.
func Differences() []Known {
	return nil
}

// reasonFor returns the reason of a loss, "" when none is written.
func reasonFor(loss Loss, known []Known) (string, error) {
	for _, k := range known {
		pattern, err := regexp.Compile(k.Pattern)
		if err != nil {
			return "", fmt.Errorf("known difference %q of %s: %w", k.Pattern, k.Set, err)
		}
		if k.Set == loss.Set && pattern.MatchString(loss.Spec) {
			return k.Reason, nil
		}
	}
	return "", nil
}

// Outdated returns the known differences that no recorded run shows.
func Outdated(known []Known, losses []Loss) ([]Known, error) {
	var outdated []Known
	for _, k := range known {
		pattern, err := regexp.Compile(k.Pattern)
		if err != nil {
			return nil, fmt.Errorf("known difference %q of %s: %w", k.Pattern, k.Set, err)
		}
		shown := slices.ContainsFunc(losses, func(loss Loss) bool { return k.Set == loss.Set && pattern.MatchString(loss.Spec) })
		if !shown {
			outdated = append(outdated, k)
		}
	}
	return outdated, nil
}
