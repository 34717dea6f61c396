package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/lease"
)

// printer prints a line for each attempt.
type printer struct{ w io.Writer }

// renewed prints a renewal.
func (p printer) renewed(r lease.Renewal) {
	what := []string{fmt.Sprintf("renewed in %s", r.Took.Round(time.Millisecond/10))}
	if r.Attempts > 1 {
		what = append(what, fmt.Sprintf("attempt %d", r.Attempts))
	}
	if r.Skew != 0 {
		what = append(what, fmt.Sprintf("the server's clock is ahead by %s", r.Skew.Round(time.Second)))
	}
	p.line(r.Time, r.Gap, strings.Join(what, ", "))
}

// failed prints a failure.
func (p printer) failed(f lease.Failure) {
	p.line(time.Now(), f.Silence, fmt.Sprintf("attempt %d failed: %v", f.Attempt, f.Err))
}

func (p printer) line(at time.Time, gap time.Duration, what string) {
	silence := "-"
	if gap > 0 {
		silence = gap.Round(10 * time.Millisecond).String()
	}
	fmt.Fprintf(p.w, "%-24s  %-8s  %s\n", at.Format("2006-01-02T15:04:05.000"), silence, what)
}
