package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (c Chapter) write(b *strings.Builder, comparisons []Comparison) {
	fmt.Fprintf(b, "\n## %s\n%s.\n", c.Set.Name, upperFirst(c.Set.About))
	if len(c.Kits) == 0 {
		b.WriteString("\nNo run is recorded.\n")
		return
	}
	b.WriteString("\n| kit | began (UTC) | passed | failed | skipped | all | time | load | at a time | nodekit |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, runs := range c.Kits {
		for _, run := range runs {
			run.writeRow(b)
		}
	}
	losses := map[string]bool{}
	for _, comparison := range comparisons {
		for _, loss := range comparison.Losses {
			losses[loss.Spec] = true
		}
	}
	writeLosses(b, comparisons)
	c.writeOthers(b, losses)
}

func (r Record) writeRow(b *strings.Builder) {
	n := CountOf(names(r.Results), r.Results)
	passed, load, procs := fmt.Sprint(n.Passed), "–", "–"
	if again := secondTries(r.Results); again > 0 {
		passed += fmt.Sprintf(" (%d at the second try)", again)
	}
	if r.Load > 0 {
		load = fmt.Sprintf("%.1f", r.Load)
	}
	if r.Procs > 0 {
		procs = fmt.Sprint(r.Procs)
	}
	fmt.Fprintf(b, "| %s | %s | %s | %d | %d | %d | %s | %s | %s | %s |\n", kitTitle(r.Kit), began(r),
		passed, n.Failed, n.Skipped, n.Total(), r.Wall.Round(time.Second), load, procs, escape(r.Version("nodekit")))
}

func secondTries(results []Result) int {
	n := 0
	for _, r := range results {
		if r.SecondTry() {
			n++
		}
	}
	return n
}

// writeLosses lists what the stock binaries pass and ours do not.
func writeLosses(b *strings.Builder, comparisons []Comparison) {
	titled := false
	for _, c := range comparisons {
		for _, loss := range c.Losses {
			if !titled {
				b.WriteString("\nPassed by the stock binaries and not by ours in each run:\n\n| spec | with | runs passed | stock | why |\n|---|---|---|---|---|\n")
				titled = true
			}
			fmt.Fprintf(b, "| %s | %s | %d of %d | %d of %d | %s |\n", escape(loss.Spec), kitTitle(loss.Kit), loss.Passed, loss.Of,
				loss.StockPassed, loss.StockOf, loss.because())
		}
	}
}

func (l Loss) because() string {
	switch {
	case l.Reason != "":
		return escape(l.Reason)
	case l.Unexplained():
		return "**no reason is written**; " + escape(short(l.Message))
	default:
		return "comes and goes with the stock binaries, too; " + escape(short(l.Message))
	}
}

// short cuts a message to what a table can bear.
func short(message string) string {
	const most = 160
	if runes := []rune(message); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return message
}

// specs returns the names of all specs that have a result, sorted.
func (c Chapter) specs() []string {
	var all []string
	for _, run := range slices.Concat(c.Kits...) {
		all = append(all, names(run.Results)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r Record) result(spec string) (Result, bool) {
	for _, result := range r.Results {
		if result.Spec == spec {
			return result, true
		}
	}
	return Result{}, false
}

func names(results []Result) []string {
	all := make([]string, 0, len(results))
	for _, r := range results {
		all = append(all, r.Spec)
	}
	return all
}
