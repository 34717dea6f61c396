package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// location is what a suite prints before a spec's name: file and line.
var location = regexp.MustCompile(`^    \S+\.go:\d+: `)

// ParseList reads the names of all specs from what a suite prints when it is asked for
// them by --list-tests.
func ParseList(r io.Reader) ([]string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var specs []string
	for lines.Scan() {
		if at := location.FindString(lines.Text()); at != "" {
			specs = append(specs, strings.TrimSpace(lines.Text()[len(at):]))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the list of specs: %w", err)
	}
	if len(specs) == 0 {
		return nil, errors.New("the suite lists no specs")
	}
	return specs, nil
}
