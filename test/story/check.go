package story

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Check returns what of the sentences does not hold of what happened, one a line:
//
//	EVENT before EVENT          the first of the one is earlier than the first of the other
//	EVENT within D after EVENT
//	EVENT N times               or "at least N times", "never"
//	NAME and NAME run together
//	NAME exits with CODE        in one of its runs
//	pod ends PHASE
//	pod is never TEXT           no status of it has shown this text; "pod is TEXT": one has
//
// An EVENT is a name and a verb, "app starts" or "app#2 exits" for its second run. The
// verbs are starts, exits, "gets TERM", preStop, "preStop ends", postStart, "postStart
// ends".
func Check(sentences string, events []Event, slack Slack) []string {
	var broken []string
	for line := range strings.Lines(sentences) {
		line, _, _ = strings.Cut(line, "#!")
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if err := slack.holds(line, events); err != nil {
			broken = append(broken, fmt.Sprintf("%s: %v", line, err))
		}
	}
	return broken
}

// Slack is what is forgiven where time is real. The zero value forgives nothing.
type Slack struct {
	// Order is by how much an event may come too late that has to be before another one.
	Order time.Duration
	// Time is by how much an event may come too late that has to be within a time.
	Time time.Duration
}

func (s Slack) holds(line string, events []Event) error {
	if a, b, ok := strings.Cut(line, " before "); ok {
		return s.before(a, b, events)
	}
	if a, rest, ok := strings.Cut(line, " within "); ok {
		limit, b, _ := strings.Cut(rest, " after ")
		return s.within(a, b, limit, events)
	}
	if names, ok := strings.CutSuffix(line, " run together"); ok {
		a, b, _ := strings.Cut(names, " and ")
		return together(a, b, events)
	}
	if text, ok := strings.CutPrefix(line, "pod "); ok {
		return ofPod(text, events)
	}
	if name, code, ok := strings.Cut(line, " exits with "); ok {
		return exits(name, code, events)
	}
	return times(line, events)
}

// find returns the first event of this kind, nil if there is none.
func find(event string, events []Event) *Event {
	all := findAll(event, events)
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

func findAll(event string, events []Event) []Event {
	who, what, _ := strings.Cut(strings.TrimSpace(event), " ")
	name, number, counted := strings.Cut(who, "#")
	var out []Event
	for _, e := range events {
		if e.Who != name || counted && strconv.Itoa(e.Run) != number || !isVerb(e.What, what) {
			continue
		}
		out = append(out, e)
	}
	return out
}

// isVerb compares a verb with what happened, which may say more: "exits with 1".
func isVerb(what, verb string) bool {
	return what == verb || strings.HasPrefix(what, verb+" ") && !strings.HasPrefix(what, verb+" ends")
}

func both(a, b string, events []Event) (x, y *Event, err error) {
	x, y = find(a, events), find(b, events)
	if x == nil {
		return nil, nil, fmt.Errorf("%s does not happen", a)
	}
	if y == nil {
		return nil, nil, fmt.Errorf("%s does not happen", b)
	}
	return x, y, nil
}

func (s Slack) before(a, b string, events []Event) error {
	x, y, err := both(a, b, events)
	if err != nil {
		return err
	}
	if late := x.At - y.At; late > s.Order || late == s.Order && x.rank() >= y.rank() {
		return fmt.Errorf("it happens at %s, not before %s", x.At, y.At)
	}
	return nil
}

func (s Slack) within(a, b, limit string, events []Event) error {
	d, err := time.ParseDuration(limit)
	if err != nil {
		return err
	}
	x, y, err := both(a, b, events)
	if err != nil {
		return err
	}
	if x.At < y.At-s.Order || x.At > y.At+d+s.Time {
		return fmt.Errorf("the one happens at %s, the other at %s", x.At, y.At)
	}
	return nil
}

// together reports whether two containers run at the same time at any moment.
func together(a, b string, events []Event) error {
	running := map[string]bool{}
	for _, e := range events {
		switch {
		case e.What == "starts":
			running[e.Who] = true
		case isVerb(e.What, "exits"):
			delete(running, e.Who)
		}
		if running[a] && running[b] {
			return nil
		}
	}
	return fmt.Errorf("they do not")
}

func ofPod(text string, events []Event) error {
	last, seen := "", []string{}
	for _, e := range events {
		if e.Who == "pod" {
			last = e.What
			seen = append(seen, e.What)
		}
	}
	shown := func(text string) bool { return strings.Contains(strings.Join(seen, "\n"), text) }
	if want, ok := strings.CutPrefix(text, "ends "); ok {
		if !strings.Contains(last, want) {
			return fmt.Errorf("it %s at last", last)
		}
		return nil
	}
	if not, ok := strings.CutPrefix(text, "is never "); ok {
		if shown(not) {
			return fmt.Errorf("it is")
		}
		return nil
	}
	want, ok := strings.CutPrefix(text, "is ")
	switch {
	case !ok:
		return fmt.Errorf("not a sentence")
	case !shown(want):
		return fmt.Errorf("it never is")
	}
	return nil
}

func exits(name, code string, events []Event) error {
	for _, e := range findAll(name+" exits", events) {
		if isVerb(e.What, "exits with "+code) {
			return nil
		}
	}
	return fmt.Errorf("it does not")
}

// times checks how often something happens.
func times(line string, events []Event) error {
	words := strings.Fields(line)
	n := len(words)
	if n >= 3 && words[n-1] == "times" {
		want, err := strconv.Atoi(words[n-2])
		if err != nil {
			return err
		}
		event, least := strings.Join(words[:n-2], " "), false
		if rest, ok := strings.CutSuffix(event, " at least"); ok {
			event, least = rest, true
		}
		got := len(findAll(event, events))
		if got < want || !least && got > want {
			return fmt.Errorf("it happens %d times", got)
		}
		return nil
	}
	if event, ok := strings.CutSuffix(line, " never"); ok {
		if e := find(event, events); e != nil {
			return fmt.Errorf("it does at %s", e.At)
		}
		return nil
	}
	if find(line, events) == nil {
		return fmt.Errorf("it does not happen")
	}
	return nil
}
