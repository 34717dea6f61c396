package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// watched is what Watch looks for.
type watched struct {
	// mu guards what follows.
	mu sync.Mutex
	// sentinels are nil before the first Reset. They are replaced, never changed.
	sentinels []*sentinel
	// many tells that there are too many endpoints to list all rules without need.
	many bool
	// refused tells that ServicePorts were left out.
	refused bool
	named   named
}

// sentinel is what has to be there of one family.
type sentinel struct {
	family   proxier.Family
	programs programs
	script   script
	text     []byte
}

// publish takes over what a Reset has put in force.
func (w *watched) publish(b *Backend) {
	var made []*sentinel
	many := false
	for _, f := range b.families() {
		made = append(made, newSentinel(f, b.programs[f], b.rulesets[f].fixed))
		many = many || b.rulesets[f].terse()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sentinels, w.many, w.named, w.refused = made, many, b.named, b.refused > 0
}

func (w *watched) get() []*sentinel {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sentinels
}

// due reports whether it is time for a Reset although nothing seems to be missing.
func (w *watched) due(since time.Duration, cfg Config) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.sentinels == nil:
		return false
	case w.refused && since >= refusedIntervals*cfg.CheckInterval:
		return true
	}
	return !w.many && since >= cfg.FullInterval
}

// refusedIntervals is after how many looks ServicePorts that were left out are tried again.
const refusedIntervals = 10

// moved reports whether the node has other addresses than rules were made for. Those that
// none would name, as of the interfaces of pods, do not count.
func (w *watched) moved(h host) bool {
	w.mu.Lock()
	made := w.named
	w.mu.Unlock()
	if len(made.within) == 0 {
		return false
	}
	now, err := h.addrs()
	return err == nil && !slices.Equal(made.addrs, addrsIn(now, made.within))
}

// newSentinel asks for each rule that does not depend on ServicePorts.
func newSentinel(f proxier.Family, p programs, have fixed) *sentinel {
	s := &sentinel{family: f, programs: p}
	want := func(t tableName, text []byte) {
		for line := range bytes.Lines(text) {
			s.script.part(t, rules).as('C', line)
		}
	}
	for _, c := range have.chains {
		want(c.table, c.rules)
	}
	want(nat, have.tail)
	want(filter, have.guard)
	for _, j := range jumps() {
		want(j.table, j.append(nil))
	}
	s.text = s.script.assemble()
	return s
}

// Watch looks every CheckInterval whether the jumps, the rules that belong to no
// Service and the canary chains are there, in each table. When they are not, because
// somebody has flushed a table or reloaded a firewall, it waits until that is over,
// and tells drifted, which may be (*proxier.Proxier).RequestReset. So it does when the
// node's addresses change, if rules name them, and every FullInterval, for rules that it
// does not look at, and sooner for ServicePorts that a Reset has left out. It returns nil when ctx ends, and
// runs beside the other methods.
func (b *Backend) Watch(ctx context.Context, drifted func()) error {
	tick := time.NewTicker(b.cfg.CheckInterval)
	defer tick.Stop()
	listed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C: // time for a look
		}
		all := b.watched.get()
		if b.watched.moved(b.host) {
			b.cfg.Log.Info("the node has other addresses for node ports")
			drifted()
			listed = time.Now()
			continue
		}
		if missing := b.look(ctx, all); len(missing) > 0 {
			missing = b.settled(ctx, all, missing)
			b.cfg.Log.Warn("rules were changed by somebody else", "missing", missing)
			drifted()
			listed = time.Now()
		} else if b.watched.due(time.Since(listed), b.cfg) {
			drifted()
			listed = time.Now()
		}
	}
}

// settled looks again until nothing changes any more, or for five seconds: who flushes
// tables does it one after the other, and may go on after the first.
func (b *Backend) settled(ctx context.Context, all []*sentinel, missing []string) []string {
	const pause, tries = 100 * time.Millisecond, 50
	for range tries {
		if !sleep(ctx, pause) {
			return missing
		}
		now := b.look(ctx, all)
		if slices.Equal(now, missing) {
			return now
		}
		missing = now
	}
	return missing
}

// look returns what is missing, as far as it can be told: one line per family for
// rules, and one for each canary.
func (b *Backend) look(ctx context.Context, all []*sentinel) []string {
	var missing []string
	for _, s := range all {
		if rule := b.lookRules(ctx, s); rule != "" {
			missing = append(missing, rule)
		}
		for _, t := range tables() {
			c := Command{Name: s.programs.iptables, Args: []string{"-w", lockSeconds, "-t", string(t), "-S", canaryChain}}
			if r, err := b.exec.Run(ctx, c); err == nil && r.Status != 0 && r.Status != resourceProblem {
				missing = append(missing, fmt.Sprintf("%s: chain %s of table %s", s.family, canaryChain, t))
			}
		}
	}
	return missing
}

// lookRules returns the first rule that is missing.
func (b *Backend) lookRules(ctx context.Context, s *sentinel) string {
	args := []string{"-w", lockSeconds, "--noflush"}
	if s.programs.variant == Legacy {
		// Without it all tables would be written as they are. iptables-nft would not
		// look at all with it.
		args = append(args, "--test")
	}
	r, err := b.exec.Run(ctx, Command{Name: s.programs.restore, Args: args, Stdin: s.text})
	said := parseComplaint(r)
	if err != nil || r.Status == 0 || said.locked || r.Status == resourceProblem {
		return "" // nothing is missing, or it cannot be told
	}
	rule, _ := s.script.at(said.line)
	if rule == "" {
		rule = said.message
	}
	return fmt.Sprintf("%s: %s", s.family, rule)
}

// Counters are packets that rules of the Backend have met since the counters were
// made, in both families together.
type Counters struct {
	// InvalidDropped were dropped because no connection can be told that they belong to.
	InvalidDropped uint64
	// LocalNodePorts opened connections to node ports at 127.0.0.1.
	LocalNodePorts uint64
}

// Counters reads the counters. Where the kernel has none, or no Reset has made them,
// they are 0.
func (b *Backend) Counters() (Counters, error) {
	var c Counters
	var errs []error
	for name, to := range map[string]*uint64{invalidCounter: &c.InvalidDropped, localNodePortCounter: &c.LocalNodePorts} {
		n, err := b.host.counter(name)
		if err != nil && !isAbsent(err) {
			errs = append(errs, fmt.Errorf("iptables: %w", err))
		}
		*to = n
	}
	return c, errors.Join(errs...)
}
