package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints the demonstration while it runs and keeps it for the end.
type report struct {
	out     io.Writer
	started time.Time
	steps   []*stepReport
	facts   []string
}

// stepReport is what one step did, expected and saw.
type stepReport struct {
	Title   string   `json:"title"`
	Does    []string `json:"does,omitempty"`
	Expects []string `json:"expects,omitempty"`
	Saw     []string `json:"saw,omitempty"`
	Seconds float64  `json:"seconds"`
	Error   string   `json:"error,omitempty"`

	started time.Time
}

func newReport(out io.Writer) *report {
	return &report{out: out, started: time.Now()}
}

func (r *report) begin(title string) {
	r.steps = append(r.steps, &stepReport{Title: title, started: time.Now()})
	fmt.Fprintf(r.out, "\n== %d. %s\n", len(r.steps), title)
}

// end closes the step, as failed when err is not nil.
func (r *report) end(err error) {
	step := r.current()
	step.Seconds = time.Since(step.started).Seconds()
	if err != nil {
		step.Error = err.Error()
		r.line("FAILED", err.Error())
		return
	}
	r.line("ok", fmt.Sprintf("%.1f s", step.Seconds))
}

func (r *report) current() *stepReport { return r.steps[len(r.steps)-1] }

func (r *report) does(format string, args ...any) {
	step := r.current()
	step.Does = append(step.Does, fmt.Sprintf(format, args...))
	r.line("do", fmt.Sprintf(format, args...))
}

func (r *report) expects(text string) {
	step := r.current()
	step.Expects = append(step.Expects, text)
	r.line("expect", text)
}

func (r *report) saw(format string, args ...any) {
	step := r.current()
	step.Saw = append(step.Saw, fmt.Sprintf(format, args...))
	r.line("saw", fmt.Sprintf(format, args...))
}

// table prints rows of tab-separated cells, aligned; the first row is the head.
func (r *report) table(rows ...string) {
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(rows, "\n"))
	if err := w.Flush(); err != nil {
		r.saw("%v", err) // A strings.Builder never fails.
	}
	r.saw("%s", strings.TrimRight(aligned.String(), "\n"))
}

// fact adds a line to the summary.
func (r *report) fact(format string, args ...any) {
	r.facts = append(r.facts, fmt.Sprintf(format, args...))
}

// line prints a word and a text; further lines of the text are indented below
// its first one.
func (r *report) line(word, text string) {
	const indent = "\n           "
	fmt.Fprintf(r.out, "   %-7s %s\n", word, strings.ReplaceAll(text, "\n", indent))
}

// finish prints the summary.
func (r *report) finish(err error, logs string) {
	fmt.Fprintf(r.out, "\n== Summary after %.0f s\n", time.Since(r.started).Seconds())
	for _, fact := range r.facts {
		r.line("yes", fact)
	}
	if err == nil {
		return
	}
	r.line("NO", err.Error())
	fmt.Fprintf(r.out, "\nThe logs are in %s\n", logs)
}

func (r *report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	document := struct {
		Steps []*stepReport `json:"steps"`
		Facts []string      `json:"facts"`
	}{r.steps, r.facts}
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}
