package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Stream is the stream of a container that an entry was written to.
type Stream uint8

// The streams. In Options the zero value means both.
const (
	Both Stream = iota
	Stdout
	Stderr
)

// String returns the name in log files.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "both"
}

// Entry is one entry of a log: a line, or a piece of one.
type Entry struct {
	// Time is when the runtime got it.
	Time time.Time
	// Stream is Stdout or Stderr.
	Stream Stream
	// Partial says that the line goes on in the next entry of the stream.
	Partial bool
	// Text is the line without its end. It may hold any bytes.
	Text []byte
}

// errFormat is why a line is no entry.
var errFormat = errors.New("want TIME stdout|stderr P|F TEXT, or a JSON object with log, stream and time")

// Parse reads a line of a log file, without its end. It takes the format of CRI,
// "2026-01-02T15:04:05.123456789Z stdout F text"
// (https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md),
// and that of Docker's json-file driver. The Text of a CRI entry is part of line, not a
// copy. Parse never panics, whatever line holds.
func Parse(line []byte) (Entry, error) {
	if len(line) > 0 && line[0] == '{' {
		return parseDocker(line)
	}
	return parseCRI(line)
}

func parseCRI(line []byte) (Entry, error) {
	stamp, rest, found := bytes.Cut(line, []byte(" "))
	if !found {
		return Entry{}, fmt.Errorf("log line has no stream: %w", errFormat)
	}
	var e Entry
	var ok bool
	if e.Time, ok = parseTime(stamp); !ok {
		return Entry{}, fmt.Errorf("log line has no time: %w", errFormat)
	}
	if e.Stream, ok = parseStream(rest); !ok {
		return Entry{}, fmt.Errorf("log line has no stream: %w", errFormat)
	}
	// Tags are separated by colons; only the first has a meaning so far.
	tags := rest[len("stdout "):]
	switch {
	case len(tags) == 0 || tags[0] != 'P' && tags[0] != 'F':
		return Entry{}, fmt.Errorf("log line has no tag: %w", errFormat)
	case len(tags) > 1 && tags[1] == ' ':
		e.Text = tags[2:]
	case len(tags) == 1:
		// An empty line from a runtime that trims.
	case tags[1] == ':':
		_, e.Text, _ = bytes.Cut(tags, []byte(" "))
	default:
		return Entry{}, fmt.Errorf("log line has no tag: %w", errFormat)
	}
	e.Partial = tags[0] == 'P'
	return e, nil
}

func parseStream(rest []byte) (Stream, bool) {
	// Both names have the same length.
	const length = len("stdout ")
	if len(rest) < length {
		return 0, false
	}
	switch string(rest[:length]) {
	case "stdout ":
		return Stdout, true
	case "stderr ":
		return Stderr, true
	}
	return 0, false
}

// parseDocker reads a line of the json-file driver: a text that ends a line ends in \n
// (https://docs.docker.com/engine/logging/drivers/json-file/).
func parseDocker(line []byte) (Entry, error) {
	var j struct {
		Log    *string   `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return Entry{}, fmt.Errorf("log line: %w", err)
	}
	if j.Log == nil || j.Time.IsZero() {
		return Entry{}, fmt.Errorf("log line has no log or no time: %w", errFormat)
	}
	e := Entry{Time: j.Time, Text: []byte(*j.Log), Partial: true}
	switch j.Stream {
	case "stdout":
		e.Stream = Stdout
	case "stderr":
		e.Stream = Stderr
	default:
		return Entry{}, fmt.Errorf("log line has stream %q: %w", j.Stream, errFormat)
	}
	if text, whole := bytes.CutSuffix(e.Text, []byte("\n")); whole {
		e.Text, e.Partial = text, false
	}
	return e, nil
}
