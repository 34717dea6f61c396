package proxier

import (
	"slices"
	"time"
)

// Status says how far what is in force is from what is desired.
type Status struct {
	// Waiting names the feeds that are not synced yet. Nothing is programmed before
	// the list is empty.
	Waiting []string
	// LastSuccess is when a round last ended with everything in force; zero before
	// the first.
	LastSuccess time.Time
	// QueuedSince is since when the oldest change waits to be in force, that which
	// the Backend works on included; zero if none does. The first Reset counts from
	// the start of Run.
	QueuedSince time.Time
	// Pending counts the changes that wait to be in force, those that the Backend works
	// on included.
	Pending Changes
	// LastError is what the last round failed with, nil after a success.
	LastError error
	// Failures is the number of rounds that have failed since the last success.
	Failures int
}

// Changes counts events of API objects that change what is desired. One about an object
// that the proxier does not serve, or that says the same as before, is none.
type Changes struct {
	Services, EndpointSlices int
}

func (c Changes) plus(o Changes) Changes {
	return Changes{c.Services + o.Services, c.EndpointSlices + o.EndpointSlices}
}

// Stale reports whether a change has waited longer than limit at the time now.
func (s Status) Stale(now time.Time, limit time.Duration) bool {
	return !s.QueuedSince.IsZero() && now.Sub(s.QueuedSince) > limit
}

// Status returns the present status.
func (p *Proxier) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.QueuedSince, s.Pending = p.queued, p.pending.plus(p.taken)
	if !p.working.IsZero() {
		s.QueuedSince = p.working
	}
	for _, f := range p.waiting {
		s.Waiting = append(s.Waiting, f.name)
	}
	slices.Sort(s.Waiting)
	return s
}
