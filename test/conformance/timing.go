package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Timing compares how long specs took in two runs, of those that passed in both.
type Timing struct {
	// Ours and Stock are the runs.
	Ours, Stock Record
	// Specs is how many passed in both. Zero when there are no two runs to compare.
	Specs int
	// OursTook and StockTook are the times that the suite reports for them, added up: of
	// one that passed at the second try, the second.
	OursTook, StockTook time.Duration
}

// Ratio is the time with ours by that with the stock binaries. Zero when one of them is
// not known.
func (t Timing) Ratio() float64 {
	if t.StockTook == 0 {
		return 0
	}
	return t.OursTook.Seconds() / t.StockTook.Seconds()
}

// loadFactor is how many times the load of one run may be that of another whose times are
// compared with its own.
const loadFactor = 1.5

// sameConditions reports whether the times of two runs may be compared: hosts that are
// alike, loads that are known and near each other, and as many specs at a time, as far as
// both tell.
func sameConditions(a, b Record) bool {
	switch {
	case HostOf(a.Versions) != HostOf(b.Versions):
		return false
	case a.Load <= 0 || b.Load <= 0 || max(a.Load, b.Load) > loadFactor*min(a.Load, b.Load):
		return false
	default:
		return a.Procs == b.Procs || a.Procs == 0 || b.Procs == 0
	}
}

// Timing returns the comparison of the newest run of ours for which there is a stock run of
// the same conditions, with the newest of those.
func (c Comparison) Timing() Timing {
	for _, ours := range slices.Backward(c.Ours) {
		for _, stock := range slices.Backward(c.Stock) {
			if sameConditions(ours, stock) {
				return timingOf(ours, stock)
			}
		}
	}
	return Timing{}
}

func timingOf(ours, stock Record) Timing {
	t := Timing{Ours: ours, Stock: stock}
	took := map[string]time.Duration{}
	for _, result := range In(Latest(stock.Results), Passed) {
		took[result.Spec] = result.Time
	}
	for _, result := range In(Latest(ours.Results), Passed) {
		if of, passed := took[result.Spec]; passed {
			t.Specs++
			t.OursTook += result.Time
			t.StockTook += of
		}
	}
	return t
}

// writeTimings writes what the times of the summary are made of.
func writeTimings(b *strings.Builder, comparisons []Comparison) {
	b.WriteString("\n## Time\nFor each kit, two runs are compared: the newest of ours for which there is one of the stock binaries under the same\n" +
		"conditions, and the newest of those. That is: kernel, runtime and Kubernetes as above, as many specs at a time as far as both\n" +
		"records tell, and loads that are known, one at most half as high again as the other. The times are those that the suite reports\n" +
		"for each spec, added up over the specs that passed in both runs; of one that passed at the second try, the second. A spec that\n" +
		"one of them left out, skipped or failed is in neither sum, nor is the time that a spec waited for its turn or the cluster took\n" +
		"to start. Where no two runs are alike there is no line.\n\n" +
		"| set | with ours | specs | ours | stock | ours / stock | load, ours and stock | began, ours and stock |\n|---|---|---|---|---|---|---|---|\n")
	var ours, stock time.Duration
	for _, c := range comparisons {
		t := c.Timing()
		if t.Ratio() == 0 {
			continue
		}
		fmt.Fprintf(b, "| [%s](#%s) | %s | %d | %s | %s | %.2f | %.1f, %.1f | %s, %s |\n", c.Set, c.Set, kitTitle(c.Ours.Kit()), t.Specs,
			t.OursTook.Round(time.Second), t.StockTook.Round(time.Second), t.Ratio(), t.Ours.Load, t.Stock.Load, began(t.Ours), began(t.Stock))
		ours += t.OursTook
		stock += t.StockTook
	}
	if stock > 0 {
		fmt.Fprintf(b, "\nAll lines together: %s with ours and %s with the stock binaries, **%.2f**.\n",
			ours.Round(time.Second), stock.Round(time.Second), ours.Seconds()/stock.Seconds())
	}
}

func began(r Record) string { return r.Date.UTC().Format("2006-01-02 15:04") }
