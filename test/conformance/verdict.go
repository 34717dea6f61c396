package conformance

import (
	"cmp"
	"slices"
)

// Difference is a spec that ended in another way than with the stock binaries.
type Difference struct {
	Spec    string `json:"spec"`
	Have    State  `json:"have"`
	Stock   State  `json:"stock"`
	Message string `json:"message,omitempty"`
}

// Count is how many specs ended in each state.
type Count struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	// Missing is specs without a result.
	Missing int `json:"missing"`
}

// Total is the number of specs.
func (c Count) Total() int { return c.Passed + c.Failed + c.Skipped + c.Missing }

// CountOf counts the results of the specs.
func CountOf(specs []string, results []Result) Count {
	have := states(Latest(results))
	var c Count
	for _, spec := range specs {
		switch have[spec] {
		case Passed:
			c.Passed++
		case Failed:
			c.Failed++
		case Skipped:
			c.Skipped++
		default:
			c.Missing++
		}
	}
	return c
}

// Verdict is what a run means.
type Verdict struct {
	Count Count `json:"count"`
	// Stock counts the stock results of the same specs. All are missing where there is
	// no stock result.
	Stock Count `json:"stock"`
	// Lost are specs that had to pass and did not: these fail a run; see [Must].
	Lost []Result `json:"lost,omitempty"`
	// Gained are specs that pass and are not in the ratchet yet.
	Gained []string `json:"gained,omitempty"`
	// Failures are all specs that failed.
	Failures []Result `json:"failures,omitempty"`
	// Differences are specs that the stock binaries end in another state.
	Differences []Difference `json:"differences,omitempty"`
}

// Judge holds the results of the specs against the demand.
func Judge(specs []string, results []Result, d Demand) Verdict {
	results = Latest(results)
	_, gained := d.Ratchet.Tighten(results)
	return Verdict{
		Count:       CountOf(specs, results),
		Stock:       CountOf(specs, d.Stock),
		Lost:        d.Lost(specs, results),
		Gained:      gained,
		Failures:    In(results, Failed),
		Differences: differences(results, d.Stock),
	}
}

// Failed reports whether the run lost a spec or has specs without a result.
func (v Verdict) Failed() bool { return len(v.Lost) > 0 || v.Count.Missing > 0 }

func differences(results, stock []Result) []Difference {
	yardstick := states(Latest(stock))
	var all []Difference
	for _, r := range results {
		if want, ok := yardstick[r.Spec]; ok && want != r.State {
			all = append(all, Difference{Spec: r.Spec, Have: r.State, Stock: want, Message: r.Message})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Stock, b.Stock), cmp.Compare(a.Spec, b.Spec))
	})
	return all
}
