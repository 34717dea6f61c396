package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a soak. Its JSON is what is recorded.
type Report struct {
	// Kit says what ran, as "kubelet ours, kube-proxy ours (nftables), containerd".
	Kit string `json:"kit"`
	// Versions name the programs and the kernel.
	Versions []string `json:"versions"`
	// Date is the day of the run.
	Date string `json:"date"`
	// Seed repeats what was random.
	Seed uint64 `json:"seed"`
	// For is how long the churn was to last, and Seconds how long all of it took.
	For     string  `json:"for"`
	Seconds float64 `json:"seconds"`
	// Samples is how often the node was looked at.
	Samples int `json:"samples"`
	// Facts are what must hold.
	Facts []Fact `json:"facts"`
	// Work is what was done, Requests what the clients got.
	Work     map[Work]int        `json:"work"`
	Requests map[string]Requests `json:"requests"`
	// Failures tell of the first things that did not work, Failed is how many there were.
	Failures []string `json:"failures,omitempty"`
	Failed   int      `json:"failed"`
	// Quiet is what was counted when all was gone; the first is the baseline.
	Quiet []Sample `json:"quiet"`
}

// newReport judges an observation.
func newReport(o Observation) *Report {
	r := &Report{
		Samples: len(o.Samples), Facts: Judge(o),
		Work: o.Work, Requests: o.Requests, Failures: o.Failures, Failed: o.Failed,
	}
	for _, s := range o.Samples {
		if s.Quiet {
			r.Quiet = append(r.Quiet, s)
		}
	}
	return r
}

// Again judges a soak once more, by its report and by all of its samples, as they are in its
// folder: the rules may be others by now.
func Again(r *Report, samples []Sample) *Report {
	o := Observation{Samples: samples, Work: r.Work, Requests: r.Requests, Failures: r.Failures, Failed: max(r.Failed, len(r.Failures))}
	again := newReport(o)
	again.Kit, again.Versions, again.Date, again.Seed, again.For, again.Seconds = r.Kit, r.Versions, r.Date, r.Seed, r.For, r.Seconds
	return again
}

// Passed reports whether all facts hold.
func (r *Report) Passed() bool {
	for _, f := range r.Facts {
		if !f.OK {
			return false
		}
	}
	return len(r.Facts) > 0
}

// WriteTable writes a line for each fact.
func (r *Report) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s, %s of churn, %s in all\n", r.Kit, r.For, time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	for _, f := range r.Facts {
		answer := "no"
		if f.OK {
			answer = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", answer, f.Name, f.Detail)
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(table, "failed: %s\n", failure)
	}
	return table.Flush()
}

// WriteJSON writes all of it.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
