package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/probes"
)

// printer prints an attempt, and the value of the probe after it.
type printer interface {
	print(a probes.Attempt, value probes.Outcome) error
}

func newPrinter(format string, out io.Writer) printer {
	if format == "json" {
		return lines{json.NewEncoder(out)}
	}
	return &table{out: out}
}

// lines prints a JSON object per line.
type lines struct{ enc *json.Encoder }

// line is such an object.
type line struct {
	Time    time.Time      `json:"time"`
	Kind    string         `json:"kind"`
	Outcome probes.Outcome `json:"outcome"`
	Value   probes.Outcome `json:"value"`
	Seconds float64        `json:"seconds"`
	Tries   int            `json:"tries"`
	Overrun bool           `json:"overrun,omitempty"`
	Message string         `json:"message,omitempty"`
	Error   string         `json:"error,omitempty"`
	Pod     string         `json:"pod,omitempty"`
	Name    string         `json:"container,omitempty"`
}

func (l lines) print(a probes.Attempt, value probes.Outcome) error {
	out := line{
		Time:    a.At.UTC(),
		Kind:    strings.ToLower(a.Kind.String()),
		Outcome: a.Result.Outcome,
		Value:   value,
		Seconds: a.Duration.Seconds(),
		Tries:   a.Tries,
		Overrun: a.Overrun,
		Message: a.Result.Message,
		Pod:     a.Ref.Pod,
		Name:    a.Ref.Name,
	}
	if a.Err != nil {
		out.Error = a.Err.Error()
	}
	return l.enc.Encode(out)
}

// table prints a line of columns for each attempt.
type table struct {
	out    io.Writer
	headed bool
}

const columns = "%-12s  %9s  %-8s  %-8s  %s\n"

// maxCell bounds the message in a table.
const maxCell = 200

func (t *table) print(a probes.Attempt, value probes.Outcome) error {
	if !t.headed {
		t.headed = true
		if _, err := fmt.Fprintf(t.out, columns, "TIME", "TOOK", "OUTCOME", "VALUE", "MESSAGE"); err != nil {
			return err
		}
	}
	message := a.Result.Message
	if a.Err != nil {
		message = a.Err.Error()
	}
	_, err := fmt.Fprintf(t.out, columns, a.At.Format("15:04:05.000"), took(a.Duration), a.Result.Outcome, value, cell(message))
	return err
}

func took(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// cell returns s in one line of limited length.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxCell {
		s = string(r[:maxCell]) + "…"
	}
	return s
}
