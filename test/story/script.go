package story

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// script reads the lines of a script.
func (s *Story) script(text string) error {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.line(words); err != nil {
			return fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
	}
	return nil
}

func (s *Story) line(words []string) error {
	switch {
	case words[0] == "until" && len(words) == 2:
		var err error
		s.Until, err = time.ParseDuration(words[1])
		return err
	case words[0] == "at" && len(words) > 2:
		at, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		s.Steps = append(s.Steps, Step{At: at, Verb: words[2], Args: words[3:]})
		return nil
	case words[0] == "life" && len(words) > 2:
		for run := range strings.SplitSeq(strings.Join(words[2:], " "), ";") {
			life, err := parseLife(run)
			if err != nil {
				return err
			}
			s.Lives[words[1]] = append(s.Lives[words[1]], life)
		}
		return nil
	case words[0] == "probe" && len(words) > 3:
		p := Probe{Container: words[1], Kind: words[2]}
		for run := range strings.SplitSeq(strings.Join(words[3:], " "), ";") {
			f, err := parseFinding(strings.Fields(run))
			if err != nil {
				return err
			}
			p.Runs = append(p.Runs, f)
		}
		s.Probes = append(s.Probes, p)
		return nil
	}
	return fmt.Errorf("not a line of a script")
}

// parseFinding reads "success after 3s", "failure" or "nothing".
func parseFinding(words []string) (f Finding, err error) {
	if len(words) == 0 {
		return f, fmt.Errorf("a probe needs a result")
	}
	switch words[0] {
	case "success":
		f.Success = true
	case "failure":
	case "nothing":
		f.Never = true
	default:
		return f, fmt.Errorf("result %q is not known", words[0])
	}
	if len(words) == 3 && words[1] == "after" {
		f.After, err = time.ParseDuration(words[2])
	} else if len(words) != 1 {
		err = fmt.Errorf("want RESULT after D")
	}
	return f, err
}

// parseLife reads the phrases of a life.
func parseLife(text string) (runtimetest.Life, error) {
	var life runtimetest.Life
	for phrase := range strings.SplitSeq(text, ",") {
		words := strings.Fields(phrase)
		if err := addPhrase(&life, words); err != nil {
			return life, fmt.Errorf("life %q: %w", strings.TrimSpace(phrase), err)
		}
	}
	return life, nil
}

func addPhrase(life *runtimetest.Life, words []string) error {
	text := strings.Join(words, " ")
	switch {
	case text == "runs":
		return nil
	case text == "ignores TERM":
		life.IgnoreTerm = true
		return nil
	case text == "cannot start":
		life.StartError = "no such file"
		return nil
	case strings.HasPrefix(text, "exits "):
		e, err := parseExit(words[1:])
		life.Exit = e
		return err
	case strings.HasPrefix(text, "on TERM exits "):
		e, err := parseExit(words[3:])
		life.Term = e
		return err
	case strings.HasPrefix(text, "runs out of memory after ") && len(words) == 6:
		after, err := time.ParseDuration(words[5])
		life.Exit = &runtimetest.Exit{After: after, OOM: true}
		return err
	}
	return fmt.Errorf("not a phrase")
}

// parseExit reads "CODE after D".
func parseExit(words []string) (*runtimetest.Exit, error) {
	if len(words) != 3 || words[1] != "after" {
		return nil, fmt.Errorf("want CODE after D")
	}
	code, err := strconv.ParseInt(words[0], 10, 32)
	if err != nil {
		return nil, err
	}
	after, err := time.ParseDuration(words[2])
	return &runtimetest.Exit{After: after, Code: int32(code)}, err
}
