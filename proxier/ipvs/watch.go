package ipvs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Pauses between looks for endpoints that have drained: the first soon, and each twice as
// long as the one before.
const (
	minDrainPause = time.Second
	maxDrainPause = 30 * time.Second
)

// Watch removes endpoints that have drained, and looks every Config.CheckInterval whether
// somebody else has changed what the Backend made, or the node's addresses are others: it
// tells drifted then, which may be (*proxier.Proxier).RequestReset. It returns nil when ctx
// ends, and runs beside the other methods.
func (b *Backend) Watch(ctx context.Context, drifted func()) error {
	check := time.NewTicker(b.cfg.CheckInterval)
	defer check.Stop()
	drain := newAlarm()
	defer drain.timer.Stop()
	pause := minDrainPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake: // an endpoint began to drain
			pause = minDrainPause
			drain.within(pause)
		case <-drain.timer.C: // it may have drained
			drain.set = false
			left, err := b.drain(ctx)
			if err != nil && ctx.Err() == nil {
				b.cfg.Log.Warn("endpoints that drain could not be looked at", "err", err, "retry", pause)
				b.tellLost(drifted)
			}
			if left || err != nil {
				drain.within(pause)
				pause = min(2*pause, maxDrainPause)
			}
		case <-check.C: // time for a look
			why, err := b.check(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				b.cfg.Log.Warn("changes by others cannot be noticed", "err", err, "retry", b.cfg.CheckInterval)
				b.tellLost(drifted)
			case why != "":
				b.cfg.Log.Warn("the kernel is to be programmed again", "reason", why)
				drifted()
			}
		}
	}
}

// alarm is a timer that can be brought forward, and not be put off.
type alarm struct {
	timer *time.Timer
	set   bool
	at    time.Time
}

// newAlarm returns an alarm that goes off at once.
func newAlarm() *alarm { return &alarm{timer: time.NewTimer(0), set: true, at: time.Now()} }

// within has the alarm go off when d is over, unless it does earlier.
func (a *alarm) within(d time.Duration) {
	if at := time.Now().Add(d); !a.set || at.Before(a.at) {
		a.set, a.at = true, at
		a.timer.Reset(d)
	}
}

// tellLost tells drifted if what is in force is not known any more.
func (b *Backend) tellLost(drifted func()) {
	b.mu.Lock()
	lost := b.lost
	b.mu.Unlock()
	if lost {
		b.cfg.Log.Warn("the kernel is to be programmed again", "reason", connectionLost)
		drifted()
	}
}

// drain removes endpoints without connections, and those whose time is over. It reports
// whether others are left.
func (b *Backend) drain(ctx context.Context) (left bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.inForce {
		return false, nil // the next Reset takes along what drains
	}
	now := time.Now()
	var ops []op
	for _, k := range b.state.fleet.draining() {
		found, err := b.kernel.ipvs.targets(ctx, k)
		if isGone(err) {
			continue // the next look at all of them tells
		}
		if err != nil {
			return true, b.brokenLocked(err)
		}
		ops = append(ops, b.state.fleet.drained(k, found, max(b.cfg.DrainTimeout, 0), now)...)
	}
	if err := errors.Join(b.executeLocked(ctx, ops)); err != nil {
		return true, b.brokenLocked(err)
	}
	return len(b.state.fleet.draining()) > 0, nil
}

// connectionLost is why a Reset is needed after brokenLocked could not connect.
const connectionLost = "the connection to the kernel was lost, and another could not be made"

// brokenLocked hangs up after an error of Watch or Plan, and connects anew: what is in force
// is still known. Where that fails, Watch tells.
func (b *Backend) brokenLocked(err error) error {
	_ = b.hangUpLocked()
	if again := b.connectLocked(); again != nil {
		b.inForce, b.lost = false, true
		return errors.Join(err, again)
	}
	return err
}

// check returns in what the kernel differs from what the Backend made, nothing if it does
// not.
func (b *Backend) check(ctx context.Context) (why string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		return connectionLost, nil
	}
	if !b.inForce {
		return "", nil
	}
	for _, look := range []func(context.Context) (string, error){b.checkDeviceLocked, b.checkServersLocked, b.checkTablesLocked} {
		if why, err = look(ctx); err != nil {
			return "", b.brokenLocked(err)
		}
		if why != "" {
			return why, nil
		}
	}
	return "", nil
}

func (b *Backend) checkDeviceLocked(ctx context.Context) (string, error) {
	found, err := b.kernel.device.look(ctx)
	if err != nil {
		return "", err
	}
	for e := range b.state.ledger.counts {
		if e.in == serviceIPs && !has(found.bound, e.at.Addr()) {
			return fmt.Sprintf("the device %s lacks %s", b.cfg.Device, e.at.Addr()), nil
		}
	}
	now := b.surroundings(b.state.network, found)
	if !slices.Equal(now.nodePorts, b.state.at.nodePorts) {
		return "the node has other addresses", nil
	}
	for k, claims := range b.state.ledger.claims {
		a := k.at.Addr()
		if !claims[0].front.nodePort && now.elsewhere[a] != b.state.at.elsewhere[a] {
			return fmt.Sprintf("the node has %s at another device, or no more", a), nil
		}
	}
	return "", nil
}

func (b *Backend) checkServersLocked(ctx context.Context) (string, error) {
	found, err := b.kernel.ipvs.servers(ctx)
	if err != nil {
		return "", err
	}
	have := make(map[serverKey]settings, len(found))
	for _, s := range found {
		have[s.key] = s.settings
	}
	for _, k := range b.state.fleet.keys() {
		mine := b.state.fleet[k]
		if now, there := have[k]; !there || now != mine.settings {
			return fmt.Sprintf("the virtual server %s was changed", k), nil
		}
		targets, err := b.kernel.ipvs.targets(ctx, k)
		if err != nil {
			return "", err
		}
		if !mine.matches(targets) {
			return fmt.Sprintf("real servers of %s were changed", k), nil
		}
	}
	return "", nil
}

// matches reports whether these are the targets of h.
func (h *held) matches(found []foundTarget) bool {
	for _, t := range found {
		if mine, known := h.targets[t.at]; !known || mine.weight != t.weight || mine.odd == t.masquerades {
			return false
		}
	}
	return len(found) == len(h.targets)
}

// checkTablesLocked lists the tables only if nf_tables has changed since they were last in
// order.
func (b *Backend) checkTablesLocked(ctx context.Context) (string, error) {
	now, err := b.kernel.rules.generation(ctx)
	if err != nil || now == b.state.seen {
		return "", err
	}
	if ok, err := b.kernel.rules.intact(ctx, b.state.programs); err != nil || !ok {
		return "rules of table " + b.cfg.Table + " were changed", err
	}
	have := make(map[element]bool, len(b.state.ledger.counts))
	for o := range objectCount {
		elements, err := b.kernel.rules.list(ctx, o)
		if err != nil {
			return "", err
		}
		for _, e := range elements {
			have[e] = true
			if b.state.ledger.counts[e] == 0 {
				return fmt.Sprintf("table %s has %s", b.cfg.Table, e), nil
			}
		}
	}
	if len(have) != len(b.state.ledger.counts) {
		return "elements of table " + b.cfg.Table + " are missing", nil
	}
	b.state.seen = now
	return "", nil
}
