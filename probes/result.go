package probes

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Outcome is what an attempt found, and also the value of a probe after its
// thresholds. The zero value is Unknown.
type Outcome uint8

// The outcomes.
const (
	// Unknown says nothing about the container: no attempt has been made, or the
	// prober itself could not do its work.
	Unknown Outcome = iota
	// Success says that the container answered as it should.
	Success
	// Failure says that it did not.
	Failure
	// Warning is a success that somebody should look at. It counts as Success, and
	// never is the value of a probe.
	Warning
)

// String returns the outcome as one lower-case word.
func (o Outcome) String() string {
	switch o {
	case Unknown:
		return "unknown"
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Warning:
		return "warning"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// MarshalText returns String, so that outcomes read well in JSON.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (o *Outcome) UnmarshalText(text []byte) error {
	for _, known := range []Outcome{Unknown, Success, Failure, Warning} {
		if string(text) == known.String() {
			*o = known
			return nil
		}
	}
	return fmt.Errorf("%q is no outcome of a probe: it must be unknown, success, failure or warning", clip(text, 40))
}

// verdict returns the value that o counts for: a Warning is a Success.
func (o Outcome) verdict() Outcome {
	if o == Warning {
		return Success
	}
	return o
}

// MaxOutput is the number of bytes that are kept of what a probed container
// says: a response body, or the output of a command. It is the bound of the
// kubelet too.
const MaxOutput = 10 << 10

// Result is what one attempt found.
type Result struct {
	Outcome Outcome
	// Message explains the outcome to a human. It is valid UTF-8 of at most
	// MaxOutput bytes when it comes from a prober of this module; the Engine cuts
	// the messages of other probers to that.
	Message string
}

// Failed returns a Failure with a formatted message, cut to MaxOutput.
func Failed(format string, args ...any) Result {
	return Result{Outcome: Failure, Message: clip(fmt.Sprintf(format, args...), MaxOutput)}
}

// clip returns s as valid UTF-8 of at most limit bytes, cut between characters.
// The copy does not keep s in memory.
func clip[T ~[]byte | ~string](s T, limit int) string {
	out := string(s[:min(len(s), limit)])
	if len(s) > limit {
		out = dropPart(out)
	}
	// A replacement may be longer than what it replaces.
	out = strings.ToValidUTF8(out, "\uFFFD")
	if len(out) > limit {
		out = strings.Clone(dropPart(out[:limit]))
	}
	return out
}

// dropPart returns s without the part of a character that it may end with.
func dropPart(s string) string {
	for i := len(s) - 1; i >= max(0, len(s)-utf8.UTFMax); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}
