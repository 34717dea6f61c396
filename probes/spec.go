package probes

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Probe is one probe of a container: what to run, when, and what follows.
type Probe struct {
	// Prober makes the attempts; required.
	Prober Prober
	// Schedule says when it makes them.
	Schedule Schedule
	// Grace replaces the grace period of the pod when this probe is why the container
	// is stopped; nil means the pod's. The Engine only passes it on.
	Grace *time.Duration
}

// FromSpec builds the Probe that spec describes. Fields that the API server would
// have defaulted may be zero. The error names each field that is wrong, starting
// with the name of the probe's own field in the container, and says what to do.
func FromSpec(k Kind, spec *corev1.Probe, t Target) (Probe, error) {
	if spec == nil {
		return Probe{}, fmt.Errorf("%s: there is no probe", k.field())
	}
	errs := limits(k, spec)
	prober, err := t.handler(&spec.ProbeHandler)
	if err != nil {
		errs = append(errs, err)
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", k.field(), err)
	}
	if len(errs) > 0 {
		return Probe{}, errors.Join(errs...)
	}
	p := Probe{Prober: prober, Schedule: scheduleOf(spec)}
	if seconds := spec.TerminationGracePeriodSeconds; seconds != nil {
		grace := time.Duration(*seconds) * time.Second
		p.Grace = &grace
	}
	return p, nil
}

// field returns the name of the probe's field in a container.
func (k Kind) field() string { return strings.ToLower(k.String()) + "Probe" }

// scheduleOf returns the Schedule of spec, with zero for what spec leaves open.
func scheduleOf(spec *corev1.Probe) Schedule {
	return Schedule{
		InitialDelay:     time.Duration(spec.InitialDelaySeconds) * time.Second,
		Period:           time.Duration(spec.PeriodSeconds) * time.Second,
		Timeout:          time.Duration(spec.TimeoutSeconds) * time.Second,
		SuccessThreshold: int(spec.SuccessThreshold),
		FailureThreshold: int(spec.FailureThreshold),
	}
}

// limits checks the numbers of spec against what the API allows.
func limits(k Kind, spec *corev1.Probe) []error {
	var errs []error
	numbers := []struct {
		field string
		value int32
	}{
		{"initialDelaySeconds", spec.InitialDelaySeconds},
		{"timeoutSeconds", spec.TimeoutSeconds},
		{"periodSeconds", spec.PeriodSeconds},
		{"successThreshold", spec.SuccessThreshold},
		{"failureThreshold", spec.FailureThreshold},
	}
	for _, n := range numbers {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: it must not be negative", n.field, n.value))
		}
	}
	if k != Readiness && spec.SuccessThreshold > 1 {
		errs = append(errs, fmt.Errorf("successThreshold is %d: this probe allows only 1", spec.SuccessThreshold))
	}
	seconds := spec.TerminationGracePeriodSeconds
	switch {
	case seconds == nil:
	case k == Readiness:
		errs = append(errs, errors.New("terminationGracePeriodSeconds is set: a readiness probe stops nothing, remove it"))
	case *seconds < 0 || *seconds > maxGrace:
		errs = append(errs, fmt.Errorf("terminationGracePeriodSeconds is %d: it must be between 0 and %d", *seconds, maxGrace))
	}
	return errs
}

// maxGrace is the longest time in seconds that a time.Duration holds.
const maxGrace = int64(1<<63-1) / int64(time.Second)
