package conformance

import (
	"fmt"
	"regexp"
	"slices"
)

// Demand is what the results of a run are held against.
type Demand struct {
	// Must are the specs that have to pass.
	Must Ratchet
	// MaySkip lets specs of Must skip themselves: the cluster is smaller than they want.
	MaySkip bool
	// Ratchet is what has passed with the kit before.
	Ratchet Ratchet
	// Stock are the results of the stock binaries.
	Stock []Result
}

// Must returns what has to pass with ours: what has passed before, and what the stock
// binaries passed in each of their runs, save the known differences of the set.
func Must(set string, ratchet Ratchet, stock Runs, known []Known) (Ratchet, error) {
	must := slices.Clone(ratchet)
	for _, spec := range stock.Steady() {
		switch reason, err := reasonFor(Loss{Set: set, Spec: spec}, known); {
		case err != nil:
			return nil, err
		case reason == "":
			must = append(must, spec)
		}
	}
	slices.Sort(must)
	return slices.Compact(must), nil
}

// Lost returns the specs that had to pass and did not, as far as they were asked for.
func (d Demand) Lost(asked []string, results []Result) []Result {
	lost := d.Must.Lost(asked, results)
	if d.MaySkip {
		lost = slices.DeleteFunc(lost, func(r Result) bool { return r.State == Skipped })
	}
	return lost
}

// Again returns the specs that are worth a second try, of those that ran: what was lost,
// and what failed, unless it fails in each of the stock binaries' runs.
func (d Demand) Again(ran []string, results []Result, stock Runs) []string {
	var again []string
	for _, lost := range d.Lost(ran, results) {
		again = append(again, lost.Spec)
	}
	hopeless := stock.alwaysFail()
	for _, failed := range In(Latest(results), Failed) {
		if slices.Contains(ran, failed.Spec) && !slices.Contains(hopeless, failed.Spec) {
			again = append(again, failed.Spec)
		}
	}
	slices.Sort(again)
	return slices.Compact(again)
}

// Excused sorts specs by what the host can do.
type Excused struct {
	// Run are the specs to run.
	Run []string
	// Results are those of the specs that are left out.
	Results []Result
	// Refused says of each spec that a skip names and that runs all the same, why.
	Refused []string
}

// Excuses sorts the specs by the skips. stock holds upstream's runs of the same set on a
// host like this one: each must have failed as the skip says, or have skipped the spec.
// Without that, or after a pass, nothing shows that it is the host, and the spec runs.
func Excuses(specs []string, skips []Skip, stock Runs) (Excused, error) {
	var e Excused
	for _, spec := range specs {
		skip, found, err := skipFor(spec, skips)
		if err != nil {
			return Excused{}, err
		}
		why := ""
		if found {
			if why, err = skip.refuted(spec, stock); err != nil {
				return Excused{}, err
			}
		}
		switch {
		case !found:
			e.Run = append(e.Run, spec)
		case why != "":
			e.Run = append(e.Run, spec)
			e.Refused = append(e.Refused, fmt.Sprintf("%s: not left out (%s): %s", spec, skip.Reason, why))
		default:
			e.Results = append(e.Results, Result{Spec: spec, State: Skipped, Message: hostLimit + skip.Reason})
		}
	}
	return e, nil
}

// refuted says why the skip does not count for the spec, "" when it does.
func (s Skip) refuted(spec string, stock Runs) (string, error) {
	fails, err := regexp.Compile(s.Fails)
	if err != nil {
		return "", fmt.Errorf("skip %q: %w", s.Pattern, err)
	}
	shown := false
	for _, run := range stock {
		result, ran := run.result(spec)
		switch {
		case !ran:
		case result.State == Passed:
			return "the stock binaries pass it on a host like this", nil
		case result.State == Failed && !fails.MatchString(result.Message):
			return "the stock binaries fail it otherwise: " + short(result.Message), nil
		default:
			shown = true
		}
	}
	if !shown {
		return "no recorded run of the stock binaries on a host like this shows it", nil
	}
	return "", nil
}
