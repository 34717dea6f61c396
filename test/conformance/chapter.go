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
	b.WriteString("\n| kit | began (UTC) | passed | failed | skipped | all | time | load | nodekit |\n|---|---|---|---|---|---|---|---|---|\n")
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
	passed, load := fmt.Sprint(n.Passed), "–"
	if again := secondTries(r.Results); again > 0 {
		passed += fmt.Sprintf(" (%d at the second try)", again)
	}
	if r.Load > 0 {
		load = fmt.Sprintf("%.1f", r.Load)
	}
	fmt.Fprintf(b, "| %s | %s | %s | %d | %d | %d | %s | %s | %s |\n", kitTitle(r.Kit), r.Date.UTC().Format("2006-01-02 15:04"),
		passed, n.Failed, n.Skipped, n.Total(), r.Wall.Round(time.Second), load, escape(r.Version("nodekit")))
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

// other is a group of specs that did not pass, of the same reason with the same kits.
type other struct {
	title string
	specs []string
}

// writeOthers lists what did not pass in some run and is no loss, folded and by reason.
func (c Chapter) writeOthers(b *strings.Builder, losses map[string]bool) {
	var groups []*other
	for _, spec := range c.specs() {
		title := c.ends(spec)
		if losses[spec] || title == "" {
			continue
		}
		at := slices.IndexFunc(groups, func(g *other) bool { return g.title == title })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &other{title: title})
		}
		groups[at].specs = append(groups[at].specs, spec)
	}
	for i, group := range groups {
		if i == 0 {
			b.WriteString("\nNot passed, and no loss:\n")
		}
		fmt.Fprintf(b, "\n<details><summary>%d %s</summary>\n\n", len(group.specs), escape(group.title))
		for _, spec := range group.specs {
			fmt.Fprintf(b, "- %s\n", escape(spec))
		}
		b.WriteString("\n</details>\n")
	}
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

// ends says how a spec ended where it did not pass, why, and with which kits; "" when it
// always passed.
func (c Chapter) ends(spec string) string {
	state, message, all := Passed, "", true
	var kits []string
	for _, runs := range c.Kits {
		bad, asked := 0, 0
		for _, run := range runs {
			result, ran := run.result(spec)
			if !ran {
				continue
			}
			asked++
			if result.State == Passed {
				continue
			}
			bad++
			if state == Passed || isHostLimit(result.Message) {
				state, message = result.State, result.Message
			}
		}
		all = all && bad == asked
		if bad > 0 {
			kits = append(kits, fmt.Sprintf("%s (%d of %d)", kitTitle(runs.Kit()), bad, asked))
		}
	}
	switch {
	case state == Passed:
		return ""
	case all:
		return strings.TrimSuffix(fmt.Sprintf("%s with all kits: %s", state, short(message)), ": ")
	default:
		return strings.TrimSuffix(fmt.Sprintf("%s with %s: %s", state, strings.Join(kits, "; "), short(message)), ": ")
	}
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
