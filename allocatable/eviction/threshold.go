package eviction

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable"
)

// Threshold is how much must be left of something.
type Threshold struct {
	Signal Signal
	Value  allocatable.Threshold
	// Grace is how long less than Value must have been left before pods are evicted.
	// 0 makes the threshold a hard one: pods are evicted at once and get a second to end.
	Grace time.Duration
	// MinReclaim is how much more than Value must be left before the threshold counts
	// as no longer crossed, once it was. The zero value asks for no more.
	MinReclaim allocatable.Threshold
}

// Hard reports whether pods are evicted as soon as the threshold is crossed.
func (t Threshold) Hard() bool { return t.Grace == 0 }

// Settings are the thresholds as a KubeletConfiguration has them: maps from signal to
// an amount or a percentage of the capacity, and for soft ones to a duration. Hard is
// what is in force, thus with the defaults. The zero value has no threshold.
type Settings struct {
	Hard, Soft, SoftGracePeriod, MinimumReclaim map[string]string
	// EnforcePods says that all pods together are held to what is allocatable
	// (enforceNodeAllocatable has pods). The hard threshold for memory then guards
	// that limit, too.
	EnforcePods bool
	// Disks says what shares a file system. A threshold for containerfs is not its
	// own but that of the file system that containers write to, as in the kubelet.
	Disks Disks
}

// Thresholds reads settings. The error names every entry that is no threshold;
// thresholds are in the order in which they are acted upon.
func Thresholds(s Settings) ([]Threshold, error) {
	var failed []error
	fail := func(field, signal string, err error) {
		failed = append(failed, fmt.Errorf("%s[%s]: %w", field, signal, err))
	}
	hard := parse("evictionHard", s.Hard, fail)
	soft := parse("evictionSoft", s.Soft, fail)
	for i := range soft {
		signal := string(soft[i].Signal)
		grace, err := time.ParseDuration(s.SoftGracePeriod[signal])
		if err == nil && grace <= 0 {
			err = errors.New("must be longer than 0")
		}
		if err != nil {
			fail("evictionSoftGracePeriod", signal, err)
		}
		soft[i].Grace = grace
	}
	all := append(hard, soft...)
	for i := range all {
		signal := string(all[i].Signal)
		reclaim, err := parseReclaim(s.MinimumReclaim[signal])
		if err != nil {
			fail("evictionMinimumReclaim", signal, err)
		}
		all[i].MinReclaim = reclaim
	}
	if err := errors.Join(failed...); err != nil {
		return nil, fmt.Errorf("eviction thresholds: %w", err)
	}
	return derive(all, s), nil
}

// parse reads a map of thresholds, without those that switch a signal off.
func parse(field string, values map[string]string, fail func(field, signal string, err error)) []Threshold {
	var thresholds []Threshold
	for _, signal := range slices.Sorted(maps.Keys(values)) {
		if Signal(signal).order() < 0 {
			fail(field, signal, fmt.Errorf("is no signal; there are %v", signals()))
			continue
		}
		value, err := allocatable.ParseThreshold(values[signal])
		if err != nil {
			fail(field, signal, err)
			continue
		}
		if !value.None() {
			thresholds = append(thresholds, Threshold{Signal: Signal(signal), Value: value})
		}
	}
	return thresholds
}

// parseReclaim takes an amount of 0 besides what a threshold may be.
func parseReclaim(s string) (allocatable.Threshold, error) {
	if q, err := resource.ParseQuantity(s); s == "" || err == nil && q.IsZero() {
		return allocatable.Threshold{}, nil
	}
	return allocatable.ParseThreshold(s)
}

// derive adds the thresholds that follow from others.
func derive(thresholds []Threshold, s Settings) []Threshold {
	thresholds = slices.DeleteFunc(thresholds, func(t Threshold) bool {
		return t.Signal == ContainerFSAvailable || t.Signal == ContainerFSInodesFree
	})
	from := map[Signal]Signal{NodeFSAvailable: ContainerFSAvailable, NodeFSInodesFree: ContainerFSInodesFree}
	if s.Disks == ImagesApart {
		from = map[Signal]Signal{ImageFSAvailable: ContainerFSAvailable, ImageFSInodesFree: ContainerFSInodesFree}
	}
	for _, t := range slices.Clone(thresholds) {
		if signal, ok := from[t.Signal]; ok {
			t.Signal = signal
			thresholds = append(thresholds, t)
		}
		if t.Signal == MemoryAvailable && t.Hard() && s.EnforcePods {
			t.Signal = AllocatableMemoryAvailable
			thresholds = append(thresholds, t)
		}
	}
	slices.SortStableFunc(thresholds, func(a, b Threshold) int {
		return cmp.Or(cmp.Compare(a.Signal.order(), b.Signal.order()), cmp.Compare(a.Grace, b.Grace))
	})
	return thresholds
}

// met reports whether less is left than the threshold demands, or than it demands to
// count as resolved.
func (t Threshold) met(o Observation, resolve bool) bool {
	want := t.Value.Of(o.Capacity)
	if resolve {
		want.Add(t.MinReclaim.Of(o.Capacity))
	}
	return want.Cmp(o.Available) > 0
}
