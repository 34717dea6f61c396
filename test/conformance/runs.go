package conformance

import (
	"cmp"
	"slices"
	"strings"
)

// RunsKept is how many runs of a set with one kit are recorded; see [Runs.Add].
const RunsKept = 3

// Runs are the recorded runs of a set with one kit, the oldest first.
type Runs []Record

// Add returns the newest of the runs and this one, and those that there is no room for.
// A run that began at the same time is the same one, and replaced.
func (rs Runs) Add(record Record) (kept, dropped Runs) {
	all := slices.DeleteFunc(slices.Clone(rs), func(r Record) bool { return r.Date.Equal(record.Date) })
	all = append(all, record)
	all.Sort()
	surplus := max(0, len(all)-RunsKept)
	return all[surplus:], all[:surplus]
}

// Sort puts the oldest run first.
func (rs Runs) Sort() {
	slices.SortStableFunc(rs, func(a, b Record) int { return a.Date.Compare(b.Date) })
}

// Kit is what the kit is called; "" without runs.
func (rs Runs) Kit() string { return rs.Newest().Kit }

// Newest returns the last run, the zero value without runs.
func (rs Runs) Newest() Record {
	if len(rs) == 0 {
		return Record{}
	}
	return rs[len(rs)-1]
}

// Steady returns the specs that passed in each run, sorted.
func (rs Runs) Steady() []string {
	var specs []string
	for spec, n := range rs.passes() {
		if n == len(rs) {
			specs = append(specs, spec)
		}
	}
	slices.Sort(specs)
	return specs
}

// alwaysFail returns the specs that failed in each run.
func (rs Runs) alwaysFail() []string {
	times := map[string]int{}
	for _, run := range rs {
		for _, result := range In(Latest(run.Results), Failed) {
			times[result.Spec]++
		}
	}
	var specs []string
	for spec, n := range times {
		if n == len(rs) {
			specs = append(specs, spec)
		}
	}
	return specs
}

// passes counts for each spec the runs that it passed in; specs that never passed are
// left out.
func (rs Runs) passes() map[string]int {
	times := map[string]int{}
	for _, run := range rs {
		for _, result := range In(Latest(run.Results), Passed) {
			times[result.Spec]++
		}
	}
	return times
}

// Chapter is a set and its recorded runs.
type Chapter struct {
	Set Set
	// Kits are the runs of each kit, in the order of the kits' names.
	Kits []Runs
}

// IsStock reports whether a kit of that name has upstream's binaries only.
func IsStock(kit string) bool { return !strings.Contains(kit, "-ours") }

// yardstick returns the recorded runs of the stock binaries that the kit is compared
// with, as [Kit.Yardstick] says.
func (c Chapter) yardstick(kit string) Runs {
	want := strings.NewReplacer("kubelet-ours", "kubelet-stock", "proxy-ours", "proxy-stock").Replace(kit)
	for _, runs := range c.Kits {
		if runs.Kit() == want {
			return runs
		}
	}
	return nil
}

// Loss is a spec that the stock binaries pass and ours have failed, or skipped, or not
// run.
type Loss struct {
	Set, Kit, Spec string
	// Passed and Of say how many of our runs it passed, StockPassed and StockOf how many
	// of the stock ones.
	Passed, Of, StockPassed, StockOf int
	// Message is what it last failed with.
	Message string
	// Reason is why, as far as somebody has found out; see [Known].
	Reason string
}

// Steady reports whether the stock binaries always pass it.
func (l Loss) Steady() bool { return l.StockPassed == l.StockOf }

// Unexplained reports whether the difference is one that nobody has given a reason for:
// neither is one written nor does the spec come and go with both.
func (l Loss) Unexplained() bool { return l.Reason == "" && (l.Steady() || l.Passed == 0) }

// tolerated reports whether a run that lost the spec counts as one that lost nothing: it
// comes and goes with both, or never passes with ours for a reason. One that ours loses at
// times breaks the row, reason or not.
func (l Loss) tolerated() bool {
	if l.Passed == 0 {
		return l.Reason != ""
	}
	return !l.Steady()
}

// Comparison is what the runs with ours are, beside those with the stock binaries.
type Comparison struct {
	Set         string
	Ours, Stock Runs
	// Apart says why runs of the stock binaries are not among Stock, if some are not: they
	// are of other hosts.
	Apart []string
	// Losses are in the order of their names.
	Losses []Loss
	// Gained are specs that always pass with ours, and not with the stock binaries.
	Gained []string
	// InARow is how many of the newest runs of ours, one after the other, passed all that
	// the stock binaries always pass, save what never passes with ours for a reason.
	InARow int
}

// Compare returns a comparison for each kit with something of ours that has a yardstick.
// The runs that are compared are of hosts like that of the newest run of ours.
func (c Chapter) Compare(known []Known) ([]Comparison, error) {
	var all []Comparison
	for _, runs := range c.Kits {
		recorded := c.yardstick(runs.Kit())
		if IsStock(runs.Kit()) || recorded == nil {
			continue
		}
		host := HostOf(runs.Newest().Versions)
		ours, _ := runs.On(host)
		stock, apart := recorded.On(host)
		comparison, err := compare(c.Set.Name, ours, stock, known)
		if err != nil {
			return nil, err
		}
		comparison.Apart = apart
		all = append(all, comparison)
	}
	return all, nil
}

func compare(set string, ours, stock Runs, known []Known) (Comparison, error) {
	c := Comparison{Set: set, Ours: ours, Stock: stock}
	passes, yardstick := ours.passes(), stock.passes()
	tolerated := map[string]bool{}
	for spec, n := range yardstick {
		if passes[spec] == len(ours) {
			continue
		}
		loss := Loss{Set: set, Kit: ours.Kit(), Spec: spec, Passed: passes[spec], Of: len(ours), StockPassed: n, StockOf: len(stock), Message: ours.why(spec)}
		var err error
		if loss.Reason, err = reasonFor(loss, known); err != nil {
			return c, err
		}
		tolerated[spec] = loss.tolerated()
		c.Losses = append(c.Losses, loss)
	}
	slices.SortFunc(c.Losses, func(a, b Loss) int { return cmp.Compare(a.Spec, b.Spec) })
	for _, spec := range ours.Steady() {
		if yardstick[spec] < len(stock) {
			c.Gained = append(c.Gained, spec)
		}
	}
	for i := len(ours) - 1; i >= 0 && holds(ours[i], yardstick, tolerated); i-- {
		c.InARow++
	}
	return c, nil
}

// why returns what the spec last did instead of passing.
func (rs Runs) why(spec string) string {
	for _, run := range slices.Backward(rs) {
		results := Latest(run.Results)
		at, found := slices.BinarySearchFunc(results, spec, func(r Result, spec string) int { return cmp.Compare(r.Spec, spec) })
		switch {
		case !found:
			return "it was not in the set then"
		case results[at].State != Passed:
			return strings.TrimSpace(string(results[at].State) + ": " + results[at].Message)
		}
	}
	return ""
}

// holds reports whether the run passed all that is wanted, save what is tolerated.
func holds(run Record, wanted map[string]int, tolerated map[string]bool) bool {
	have := states(Latest(run.Results))
	for spec := range wanted {
		if have[spec] != Passed && !tolerated[spec] {
			return false
		}
	}
	return true
}
