package admission

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// need is an amount of a resource that others must give back.
type need struct {
	name   corev1.ResourceName
	amount int64
}

// victims chooses the pods that make room for a critical one; ok is false if all of
// them together would not. Guaranteed pods are spared most: of each class only what
// is needed when all pods of the lower classes are gone is taken, from the highest
// class down.
func victims(pod *corev1.Pod, active []*corev1.Pod, short []shortage) (chosen []*corev1.Pod, ok bool) {
	var needs []need
	for _, s := range short {
		needs = append(needs, need{s.name, s.missing()})
	}
	var bestEffort, burstable, guaranteed []candidate
	for _, other := range active {
		if !preempts(pod, other) {
			continue
		}
		c := newCandidate(other)
		switch podstatus.QOSClass(other) {
		case corev1.PodQOSGuaranteed:
			guaranteed = append(guaranteed, c)
		case corev1.PodQOSBurstable:
			burstable = append(burstable, c)
		case corev1.PodQOSBestEffort:
			bestEffort = append(bestEffort, c)
		}
	}
	if len(without(needs, slices.Concat(bestEffort, burstable, guaranteed))) > 0 {
		return nil, false
	}
	high := pick(guaranteed, without(needs, slices.Concat(bestEffort, burstable)))
	middle := pick(burstable, without(needs, slices.Concat(bestEffort, high)))
	low := pick(bestEffort, without(needs, slices.Concat(middle, high)))
	for _, c := range slices.Concat(low, middle, high) {
		chosen = append(chosen, c.pod)
	}
	return chosen, true
}

// candidate is a pod with what it would give back.
type candidate struct {
	pod      *corev1.Pod
	requests corev1.ResourceList
}

func newCandidate(pod *corev1.Pod) candidate { return candidate{pod: pod, requests: requests(pod)} }

func (c candidate) amount(name corev1.ResourceName) int64 { return amount(name, c.requests[name]) }

// distance tells how much of the needs is left after the candidate, each need by
// its share, so that none counts more for its unit.
func (c candidate) distance(needs []need) float64 {
	var sum float64
	for _, n := range needs {
		if left := n.amount - c.amount(n.name); left > 0 {
			sum += math.Pow(float64(left)/float64(n.amount), 2)
		}
	}
	return sum
}

// pick takes candidates, the one that comes closest to the needs first and of
// equals the smaller one, until nothing is needed or none is left.
func pick(candidates []candidate, needs []need) []candidate {
	rest := slices.Clone(candidates)
	var picked []candidate
	for len(needs) > 0 && len(rest) > 0 {
		best := slices.MinFunc(rest, func(a, b candidate) int {
			return cmp.Or(
				cmp.Compare(a.distance(needs), b.distance(needs)),
				cmp.Compare(a.amount(corev1.ResourceMemory), b.amount(corev1.ResourceMemory)),
				cmp.Compare(a.amount(corev1.ResourceCPU), b.amount(corev1.ResourceCPU)),
			)
		})
		picked = append(picked, best)
		needs = without(needs, []candidate{best})
		rest = slices.DeleteFunc(rest, func(c candidate) bool { return c.pod == best.pod })
	}
	return picked
}

// without returns what is still needed when the pods are gone.
func without(needs []need, gone []candidate) []need {
	var left []need
	for _, n := range needs {
		for _, c := range gone {
			n.amount -= min(n.amount, c.amount(n.name))
		}
		if n.amount > 0 {
			left = append(left, n)
		}
	}
	return left
}
