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
		// Of a virtual server that is gone the list is empty: the next look at all of them tells.
		found, err := b.kernel.ipvs.targets(ctx, k)
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

// atOnceLooked is how many virtual servers are looked at before others may use the Backend.
const atOnceLooked = 100

// check returns in what the kernel differs from what the Backend made, nothing if it does
// not. Between its looks others may use the Backend: each look is at what is in force then.
func (b *Backend) check(ctx context.Context) (why string, err error) {
	var keys []serverKey
	looks := []func(context.Context) (string, error){
		b.checkDeviceLocked,
		func(ctx context.Context) (string, error) {
			keys = b.state.fleet.keys()
			return b.checkServersLocked(ctx, keys)
		},
	}
	for _, look := range looks {
		if why, err = b.look(ctx, look); why != "" || err != nil {
			return why, err
		}
	}
	for some := range slices.Chunk(keys, atOnceLooked) {
		why, err = b.look(ctx, func(ctx context.Context) (string, error) { return b.checkTargetsLocked(ctx, some) })
		if why != "" || err != nil {
			return why, err
		}
	}
	return b.checkTables(ctx)
}

// look makes one look at the kernel if something is in force.
func (b *Backend) look(ctx context.Context, f func(context.Context) (string, error)) (why string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		return connectionLost, nil
	}
	if !b.inForce {
		return "", nil
	}
	if why, err = f(ctx); err != nil {
		return "", b.brokenLocked(err)
	}
	return why, nil
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

// checkServersLocked looks at the settings of virtual servers.
func (b *Backend) checkServersLocked(ctx context.Context, keys []serverKey) (string, error) {
	found, err := b.kernel.ipvs.servers(ctx)
	if err != nil {
		return "", err
	}
	have := make(map[serverKey]settings, len(found))
	for _, s := range found {
		have[s.key] = s.settings
	}
	for _, k := range keys {
		if now, there := have[k]; !there || now != b.state.fleet[k].settings {
			return fmt.Sprintf("the virtual server %s was changed", k), nil
		}
	}
	return "", nil
}

// checkTargetsLocked looks at the real servers of those of virtual servers that are still there.
func (b *Backend) checkTargetsLocked(ctx context.Context, keys []serverKey) (string, error) {
	for _, k := range keys {
		mine := b.state.fleet[k]
		if mine == nil {
			continue
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

// checkTables lists the tables only if nf_tables has changed since they were last in order.
func (b *Backend) checkTables(ctx context.Context) (string, error) {
	var now uint32
	same := true
	why, err := b.look(ctx, func(ctx context.Context) (string, error) {
		var err error
		if now, err = b.kernel.rules.generation(ctx); err != nil || now == b.state.seen {
			return "", err
		}
		same = false
		if ok, err := b.kernel.rules.intact(ctx, b.state.programs); err != nil || !ok {
			return "rules of table " + b.cfg.Table + " were changed", err
		}
		return "", nil
	})
	if why != "" || err != nil || same {
		return why, err
	}
	for o := range objectCount {
		why, err = b.look(ctx, func(ctx context.Context) (string, error) { return b.checkElementsLocked(ctx, o) })
		if why != "" || err != nil {
			return why, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// What others changed meanwhile, and what the Backend did, has a later number.
	b.state.seen = now
	return "", nil
}

// checkElementsLocked looks at the elements of an object.
func (b *Backend) checkElementsLocked(ctx context.Context, o object) (string, error) {
	elements, err := b.kernel.rules.list(ctx, o)
	if err != nil {
		return "", err
	}
	have := make(map[element]bool, len(elements))
	for _, e := range elements {
		have[e] = true
		if b.state.ledger.counts[e] == 0 {
			return fmt.Sprintf("table %s has %s", b.cfg.Table, e), nil
		}
	}
	for e := range b.state.ledger.counts {
		if e.in == o && !have[e] {
			return fmt.Sprintf("table %s lacks %s", b.cfg.Table, e), nil
		}
	}
	return "", nil
}

// followLocked takes the generation of nf_tables over that transactions of the Backend have made
// of one at which the tables were in order: if nobody else made any, they still are, and need
// not be listed.
func (b *Backend) followLocked(ctx context.Context, before, transactions uint32) {
	if transactions == 0 {
		return
	}
	b.state.seen = 0
	if before == 0 {
		return
	}
	// Where the kernel does not tell, the next check asks for everything.
	if now, err := b.kernel.rules.generation(ctx); err == nil && now == before+transactions {
		b.state.seen = now
	}
}

// transactions returns how many it takes to change lists of elements.
func transactions(changes ...[]element) (n uint32) {
	for _, c := range changes {
		if len(c) > 0 {
			n++
		}
	}
	return n
}
