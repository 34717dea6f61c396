package podspec

import (
	"errors"
	"fmt"
	"strings"
)

// maxEnvLine is the longest line of a file of variables, in bytes.
const maxEnvLine = 64 << 10

// ParseEnvFile returns the value of a variable from a file with lines of the form
// NAME='value'. Quotes are mandatory and keep everything between them, line ends too;
// behind the closing one only a comment may follow. Lines that are empty or start
// with # are skipped, blanks before a name, too. A name followed by blanks after the
// = has an empty value. The first assignment counts; without any the value is empty
// (https://github.com/kubernetes/enhancements/issues/3721).
func ParseEnvFile(content []byte, name string) (string, error) {
	lines := envLines{rest: string(content)}
	for {
		line, ok, err := lines.next()
		if err != nil || !ok {
			return "", err
		}
		line = strings.TrimLeft(line, " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		found, value, err := lines.assignment(line)
		if err != nil || found == name {
			return value, err
		}
	}
}

// envLines hands out a file line by line.
type envLines struct {
	rest   string
	number int
}

func (l *envLines) next() (line string, ok bool, err error) {
	if l.rest == "" {
		return "", false, nil
	}
	l.number++
	line, l.rest, _ = strings.Cut(l.rest, "\n")
	if len(line) >= maxEnvLine {
		return "", false, l.failure("longer than %d bytes", maxEnvLine)
	}
	return strings.TrimSuffix(line, "\r"), true, nil
}

func (l *envLines) failure(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", l.number, fmt.Errorf(format, args...))
}

// assignment reads one assignment that begins with a line.
func (l *envLines) assignment(line string) (name, value string, err error) {
	name, quoted, ok := strings.Cut(line, "=")
	switch {
	case !ok:
		return "", "", l.failure("missing '='")
	case name == "":
		return "", "", l.failure("empty variable name")
	case strings.TrimRight(name, " \t") != name:
		return "", "", l.failure("blanks before '='")
	case strings.HasPrefix(quoted, " ") || strings.HasPrefix(quoted, "\t"):
		return name, "", nil
	case !strings.HasPrefix(quoted, "'"):
		return "", "", l.failure("value must be in single quotes")
	}
	value, err = l.quoted(quoted[1:])
	return name, value, err
}

// quoted reads up to the closing quote, over several lines if need be.
func (l *envLines) quoted(line string) (string, error) {
	var b strings.Builder
	began := l.number
	for {
		inside, after, closed := strings.Cut(line, "'")
		b.WriteString(inside)
		if closed {
			if after = strings.TrimLeft(after, " \t"); after != "" && after[0] != '#' {
				return "", l.failure("unexpected content after the closing quote")
			}
			return b.String(), nil
		}
		b.WriteByte('\n')
		next, ok, err := l.next()
		if err != nil {
			return "", err
		}
		if !ok {
			return "", fmt.Errorf("line %d: %w", began, errors.New("quote is not closed"))
		}
		line = next
	}
}
