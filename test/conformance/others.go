package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ending is how a spec ended in runs of one kit where it did not pass: of each state and
// kind of message one.
type ending struct {
	kit   string
	state State
	// message is that of the newest run, kind what it has in common with the others.
	message, kind string
	// bad is in how many runs, of those that asked for the spec.
	bad, of int
}

func (e ending) like(other ending) bool { return e.state == other.state && e.kind == other.kind }

// numbers are words with a digit: addresses, times, the ends of generated names.
var numbers = regexp.MustCompile(`[0-9A-Za-z]*[0-9][0-9A-Za-z]*`)

// kindOf returns the beginning of a message without what differs from run to run.
func kindOf(message string) string {
	const enough = 100
	kind := []rune(numbers.ReplaceAllString(message, "#"))
	return string(kind[:min(enough, len(kind))])
}

// endings returns how the spec ended where it did not pass, by kit; none when it always
// passed. always reports whether it ended alike in all runs of all kits.
func (c Chapter) endings(spec string) (all []ending, always bool) {
	always = true
	for _, runs := range c.Kits {
		var ofKit []ending
		asked := 0
		for _, run := range slices.Backward(runs) {
			result, ran := run.result(spec)
			if !ran {
				continue
			}
			asked++
			if result.State == Passed {
				continue
			}
			end := ending{kit: runs.Kit(), state: result.State, message: result.Message, kind: kindOf(result.Message)}
			at := slices.IndexFunc(ofKit, end.like)
			if at < 0 {
				at = len(ofKit)
				ofKit = append(ofKit, end)
			}
			ofKit[at].bad++
		}
		for i := range ofKit {
			ofKit[i].of = asked
		}
		all = append(all, ofKit...)
		always = always && (asked == 0 || len(ofKit) == 1 && ofKit[0].bad == asked && ofKit[0].like(all[0]))
	}
	return all, always
}

// other is a group of specs that did not pass and ended alike: in the same states, for the
// same reasons, with the same kits.
type other struct {
	title string
	// ways says each way of ending with its reason, where there is more than one.
	ways  []string
	specs []string
}

// other returns how the spec ended where it did not pass; its title is empty when it always
// passed.
func (c Chapter) other(spec string) other {
	all, always := c.endings(spec)
	if len(all) == 0 {
		return other{}
	}
	if always {
		return other{title: reasoned(fmt.Sprintf("%s with all kits", all[0].state), all[0].message)}
	}
	var o other
	var titles []string
	for len(all) > 0 {
		first := all[0]
		var kits []string
		all = slices.DeleteFunc(all, func(e ending) bool {
			if !e.like(first) {
				return false
			}
			kits = append(kits, fmt.Sprintf("%s (%d of %d)", kitTitle(e.kit), e.bad, e.of))
			return true
		})
		title := fmt.Sprintf("%s with %s", first.state, strings.Join(kits, " and "))
		titles = append(titles, title)
		o.ways = append(o.ways, reasoned(title, first.message))
	}
	if len(o.ways) == 1 {
		return other{title: o.ways[0]}
	}
	o.title = strings.Join(titles, "; ")
	return o
}

// reasoned puts a reason behind what happened, on the same line.
func reasoned(what, message string) string {
	if message == "" {
		return what
	}
	return what + ": " + short(message)
}

// writeOthers lists what did not pass in some run and is no loss, folded and by reason.
func (c Chapter) writeOthers(b *strings.Builder, losses map[string]bool) {
	var groups []*other
	for _, spec := range c.specs() {
		o := c.other(spec)
		if losses[spec] || o.title == "" {
			continue
		}
		at := slices.IndexFunc(groups, func(g *other) bool { return g.title == o.title && slices.Equal(g.ways, o.ways) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &o)
		}
		groups[at].specs = append(groups[at].specs, spec)
	}
	for i, group := range groups {
		if i == 0 {
			b.WriteString("\nNot passed, and no loss. In brackets: in how many of the kit's recorded runs.\n")
		}
		fmt.Fprintf(b, "\n<details><summary>%d %s</summary>\n\n", len(group.specs), escape(group.title))
		for _, spec := range group.specs {
			fmt.Fprintf(b, "- %s\n", escape(spec))
		}
		if len(group.ways) > 0 {
			b.WriteString("\nIn detail:\n\n")
		}
		for _, way := range group.ways {
			fmt.Fprintf(b, "- %s\n", escape(way))
		}
		b.WriteString("\n</details>\n")
	}
}
