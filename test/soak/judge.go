package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sample is what was counted at one moment.
type Sample struct {
	// At is how long the soak had run then; nanoseconds in JSON.
	At time.Duration `json:"at"`
	// Quiet says that all objects were gone and the node was given time to tidy up.
	Quiet bool `json:"quiet"`
	// Counts are of the node.
	Counts Counts `json:"counts"`
}

// Observation is what a soak saw.
type Observation struct {
	// Samples are in the order of their time. The first quiet one, after the round that
	// warmed the node up, is the baseline.
	Samples []Sample
	// Work is what was done.
	Work map[Work]int
	// Requests are those of each client.
	Requests map[string]Requests
	// Failures tell of the first things that should have worked and did not, Failed is how
	// many there were in all.
	Failures []string
	Failed   int
}

// Fact is something that must hold after a soak.
type Fact struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail are the numbers.
	Detail string `json:"detail"`
}

// What memory may grow by. An hour of churn has five hundred pods: what keeps four kilobytes
// for each of them is found. Maps that keep their buckets and buffers of connections make
// some hundred kilobytes of difference between two quiet points.
const (
	// heapGrowth is the growth of the live heap by its trend, in the second half of the soak:
	// in the first one caches fill up that have a limit, such as that of the 4096 events that
	// a client of Kubernetes tells apart, which an hour of churn has.
	heapGrowth = 2 << 20
	// fewest is how many quiet points a trend needs. With less in the second half, it is
	// that of all.
	fewest = 3
	// memoryGrowth and memoryShare are that of the resident memory, from the first third to
	// the last one. It follows the peaks of the heap, which are chance.
	memoryGrowth = 8 << 20
	memoryShare  = 0.15
)

// Judge says what holds.
func Judge(o Observation) []Fact {
	first := slices.IndexFunc(o.Samples, func(s Sample) bool { return s.Quiet })
	if first < 0 {
		return append([]Fact{{Name: "there was a quiet point", Detail: "none"}}, judgeWork(o)...)
	}
	after := o.Samples[first:]
	var quiet []Sample
	for _, s := range after {
		if s.Quiet {
			quiet = append(quiet, s)
		}
	}
	facts := []Fact{{
		Name: "quiet points after the baseline", OK: len(quiet) > 1, Detail: fmt.Sprint(len(quiet) - 1),
	}}
	if left := quiet[0].Counts.OfPods(); len(left) > 0 {
		facts = append(facts, Fact{Name: "nothing of a pod is left at the baseline", Detail: fmt.Sprint(left)})
	}
	for _, l := range limits() {
		facts = append(facts, judgeLeak(l, quiet)...)
	}
	for _, m := range []Measure{KubeletHeap, ProxyHeap} {
		facts = append(facts, judgeHeap(m, quiet))
	}
	for _, m := range []Measure{KubeletMemory, ProxyMemory} {
		facts = append(facts, judgeMemory(m, after))
	}
	for _, m := range []Measure{KubeletPID, ProxyPID} {
		facts = append(facts, judgeSame(m, after))
	}
	return append(facts, judgeWork(o)...)
}

// judgeLeak compares each quiet point with the baseline. What could not be counted is not
// judged.
func judgeLeak(l limit, quiet []Sample) []Fact {
	base, ok := quiet[0].Counts[l.measure]
	if !ok {
		return nil
	}
	most := base
	for _, s := range quiet[1:] {
		most = max(most, s.Counts[l.measure])
	}
	detail := fmt.Sprintf("%d at the baseline, at most %d later", base, most)
	if l.tolerance > 0 {
		detail += fmt.Sprintf(" (up to %d more are no leak)", l.tolerance)
	}
	return []Fact{{Name: "no more " + string(l.measure), OK: most <= base+l.tolerance, Detail: detail}}
}

// judgeHeap looks at the trend of the later quiet points.
func judgeHeap(m Measure, quiet []Sample) Fact {
	late := quiet[len(quiet)/2:]
	if len(late) < fewest {
		late = quiet
	}
	var points []point
	for _, s := range late {
		points = append(points, point{s.At.Hours(), float64(s.Counts[m])})
	}
	first, last := late[0], late[len(late)-1]
	growth := slope(points) * (last.At - first.At).Hours()
	return Fact{Name: string(m) + " does not grow", OK: growth <= heapGrowth, Detail: fmt.Sprintf(
		"%s at the baseline, %s after %s, %s at the end, %s by the trend since (up to %s)",
		megabytes(float64(quiet[0].Counts[m])), megabytes(float64(first.Counts[m])), first.At.Round(time.Minute),
		megabytes(float64(last.Counts[m])), signed(growth), megabytes(heapGrowth))}
}

// judgeMemory compares the last third of the samples with the first.
func judgeMemory(m Measure, samples []Sample) Fact {
	var values []float64
	for _, s := range samples {
		values = append(values, float64(s.Counts[m]))
	}
	third := (len(values) + 2) / 3
	before, after := median(values[:third]), median(values[len(values)-third:])
	bound := memoryGrowth + memoryShare*before
	return Fact{Name: string(m) + " is flat", OK: after <= before+bound, Detail: fmt.Sprintf(
		"%s in the first third, %s in the last (up to %s more)", megabytes(before), megabytes(after), megabytes(bound))}
}

// judgeSame looks for a program that ended and was started again.
func judgeSame(m Measure, samples []Sample) Fact {
	for _, s := range samples {
		if s.Counts[m] != samples[0].Counts[m] {
			return Fact{Name: "one " + string(m), Detail: fmt.Sprintf("another one after %s", s.At.Round(time.Second))}
		}
	}
	return Fact{Name: "one " + string(m), OK: true, Detail: fmt.Sprintf("%d samples", len(samples))}
}

// judgeWork looks at what was done, and at what failed.
func judgeWork(o Observation) []Fact {
	var (
		never []string
		done  []string
	)
	for _, w := range works() {
		if o.Work[w] == 0 {
			never = append(never, string(w))
		}
		done = append(done, fmt.Sprintf("%d %s", o.Work[w], w))
	}
	facts := []Fact{{Name: "all kinds of work were done", OK: len(never) == 0, Detail: strings.Join(done, ", ")}}
	failed := 0
	for _, name := range slices.Sorted(maps.Keys(o.Requests)) {
		r := o.Requests[name]
		failed += r.Failed
		facts = append(facts, Fact{
			Name: "no request failed: " + name, OK: r.Sent > 0 && r.Failed == 0,
			Detail: fmt.Sprintf("%d of %d failed, %d took more than a second", r.Failed, r.Sent, r.Slow),
		})
	}
	if len(o.Requests) == 0 {
		facts = append(facts, Fact{Name: "no request failed", Detail: "there was none"})
	}
	others := o.Failed - failed
	return append(facts, Fact{
		Name: "all else worked: rollouts ended, settings and static pods arrived", OK: others <= 0,
		Detail: fmt.Sprintf("%d did not", others),
	})
}
