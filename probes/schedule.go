package probes

import (
	"cmp"
	"fmt"
	"time"
)

// The values of fields that a Schedule leaves zero. They are the defaults of the
// Kubernetes API (https://kubernetes.io/docs/reference/kubernetes-api/ under
// Probe).
const (
	DefaultPeriod           = 10 * time.Second
	DefaultTimeout          = time.Second
	DefaultSuccessThreshold = 1
	DefaultFailureThreshold = 3
)

// Schedule says when a probe runs and how many results in a row it takes to
// change its value. The zero value has the defaults of the Kubernetes API.
type Schedule struct {
	// InitialDelay is the time after the start of the container before which no
	// attempt is made.
	InitialDelay time.Duration
	// Period is the time from the start of one attempt to the start of the next;
	// zero means DefaultPeriod. It may be shorter than the second that the API
	// allows.
	Period time.Duration
	// EagerPeriod replaces Period while the value of the probe is not Success, so
	// that a container is seen to be ready soon and left in peace afterwards. Zero
	// means Period.
	EagerPeriod time.Duration
	// Timeout bounds one attempt; zero means DefaultTimeout.
	Timeout time.Duration
	// SuccessThreshold is the number of successes in a row that make the value
	// Success; zero means DefaultSuccessThreshold. Startup and liveness probes allow
	// nothing but 1.
	SuccessThreshold int
	// FailureThreshold is the number of failures in a row that make the value
	// Failure; zero means DefaultFailureThreshold.
	FailureThreshold int
}

// withDefaults returns s with every zero field that has a default filled in.
func (s Schedule) withDefaults() Schedule {
	s.Period = cmp.Or(s.Period, DefaultPeriod)
	s.EagerPeriod = cmp.Or(s.EagerPeriod, s.Period)
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	s.SuccessThreshold = cmp.Or(s.SuccessThreshold, DefaultSuccessThreshold)
	s.FailureThreshold = cmp.Or(s.FailureThreshold, DefaultFailureThreshold)
	return s
}

// validate names the first field that no probe of the kind can have.
func (s Schedule) validate(k Kind) error {
	durations := []struct {
		field string
		value time.Duration
	}{
		{"InitialDelay", s.InitialDelay},
		{"Period", s.Period},
		{"EagerPeriod", s.EagerPeriod},
		{"Timeout", s.Timeout},
	}
	for _, d := range durations {
		if d.value < 0 {
			return fmt.Errorf("%s is %s: it must not be negative", d.field, d.value)
		}
	}
	if s.FailureThreshold < 0 {
		return fmt.Errorf("FailureThreshold is %d: it must not be negative", s.FailureThreshold)
	}
	if s.SuccessThreshold < 0 {
		return fmt.Errorf("SuccessThreshold is %d: it must not be negative", s.SuccessThreshold)
	}
	if k != Readiness && s.SuccessThreshold > 1 {
		return fmt.Errorf("SuccessThreshold is %d: a %s probe allows only 1", s.SuccessThreshold, k)
	}
	return nil
}

// period returns the time between attempts while the probe has the value v.
func (s Schedule) period(v Outcome) time.Duration {
	if v == Success {
		return s.Period
	}
	return s.EagerPeriod
}

// tick is what the times of attempts are multiples of, where periods are: so the probes
// of many containers fall due together, and their machine is woken few times and finds
// its caches warm, instead of once for each probe.
const tick = 250 * time.Millisecond

// onTick moves the time at which an attempt is due to the next tick, where all that
// follow it with the same period are, too. Other periods would not stay there: they are
// left as they are.
func onTick(due, period time.Duration) time.Duration {
	if period%tick != 0 {
		return due
	}
	return (due + tick - 1).Truncate(tick)
}

// following returns when the attempt after the one that was due at due is due,
// given that now it is over. Attempts stay on the grid due + n×period, moved once to a
// tick, so that delays do not add up; of the points missed meanwhile only the newest is
// made up for, at once.
func following(due, now, period time.Duration) time.Duration {
	return onTick(due+max(1, (now-due)/period)*period, period)
}

// skipping is following without making up for missed points: the next point is
// after now.
func skipping(due, now, period time.Duration) time.Duration {
	return onTick(due+(max(0, now-due)/period+1)*period, period)
}
