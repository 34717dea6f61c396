package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
)

// ErrAttachLimit says that a volume cannot be attached as the node has no place left for one
// of its driver, and that the driver wants such pods to go elsewhere: its CSIDriver has a
// nodeAllocatableUpdatePeriodSeconds. A kubelet fails the pod with the reason
// VolumeAttachmentLimitExceeded, so that its controller makes another one; the CSINode says
// meanwhile what the driver has room for.
var ErrAttachLimit = errors.New("the node has no place left for a volume of the driver")

// limits are about how many volumes drivers have room for on this node, which may change
// while they run (https://kep.k8s.io/4876).
type limits struct {
	wake chan struct{}

	mu sync.Mutex // guards now
	// now are drivers to be asked at once.
	now map[string]bool
}

func newLimits() limits { return limits{wake: make(chan struct{}, 1), now: map[string]bool{}} }

// soon has Run look at the drivers.
func (l *limits) soon() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// ask has Run ask a driver at once.
func (l *limits) ask(driver string) {
	l.mu.Lock()
	l.now[driver] = true
	l.mu.Unlock()
	l.soon()
}

// take returns the drivers that are to be asked at once, and forgets them.
func (l *limits) take() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now
	l.now = map[string]bool{}
	return now
}

// look is when a driver is looked at next.
type look struct {
	driver string
	at     time.Time
	// ask: it is asked then what it has room for. Else only its CSIDriver is read, which
	// says whether it wants to be asked.
	ask bool
}

// followLimits asks drivers what they have room for, as often as they want to be asked,
// until ctx ends. Each look has a goroutine, so that a driver that hangs holds up no other.
func (p *Provider) followLimits(ctx context.Context) {
	var each sync.WaitGroup
	defer each.Wait()
	ended := make(chan look)
	next, busy := map[string]look{}, map[string]bool{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.limits.wake: // a driver has come, or has no room left
		case <-timer.C: // one is due
		case l := <-ended:
			delete(busy, l.driver)
			next[l.driver] = l
		case <-ctx.Done():
			return
		}
		for _, l := range p.due(next, busy) {
			busy[l.driver] = true
			each.Go(func() {
				select {
				case ended <- p.look(ctx, l):
				case <-ctx.Done():
				}
			})
		}
		timer.Reset(untilFirst(next, busy))
	}
}

// due returns which drivers are to be looked at, and drops those that are gone.
func (p *Provider) due(next map[string]look, busy map[string]bool) []look {
	there, now := map[string]bool{}, p.limits.take()
	var out []look
	for _, name := range p.drivers.names() {
		there[name] = true
		l, known := next[name]
		switch {
		case busy[name]:
			continue // whoever has no room left tries again, and asks again
		case !known:
			out = append(out, look{driver: name}) // its count is of this moment
		case now[name]:
			out = append(out, look{driver: name, ask: true})
		case !time.Now().Before(l.at):
			out = append(out, l)
		}
	}
	maps.DeleteFunc(next, func(name string, _ look) bool { return !there[name] })
	return out
}

// untilFirst is how long it takes until a driver is due, at most lookPause.
func untilFirst(next map[string]look, busy map[string]bool) time.Duration {
	first := lookPause
	for name, l := range next {
		if !busy[name] {
			first = min(first, time.Until(l.at))
		}
	}
	return max(first, 0)
}

// look looks at a driver, and returns when it is to be looked at again.
func (p *Provider) look(ctx context.Context, l look) look {
	r, err := p.rules.of(ctx, l.driver)
	switch {
	case err != nil: // the server is away
		return look{l.driver, time.Now().Add(rulesAge), l.ask}
	case r.recount == 0:
		return look{l.driver, time.Now().Add(lookPause), false}
	}
	if l.ask {
		if err := p.askLimit(ctx, l.driver); err != nil && ctx.Err() == nil {
			p.log.Warn("driver does not say what it has room for, it is asked again", "driver", l.driver, "in", r.recount, "err", err)
		}
	}
	return look{l.driver, time.Now().Add(r.recount), true}
}

// askLimit asks a driver what it has room for, and has the CSINode say so.
func (p *Provider) askLimit(ctx context.Context, name string) error {
	d, err := p.drivers.get(name)
	if err != nil {
		return nil //nolint:nilerr // it has gone
	}
	return d.call(ctx, "NodeGetInfo", "", func(ctx context.Context, c csiapi.NodeClient) error {
		answer, err := c.NodeGetInfo(ctx, &csiapi.NodeGetInfoRequest{})
		if err != nil {
			return err
		}
		info, err := nodeInfoOf(answer)
		if err == nil {
			p.nodes.recount(name, info.max)
		}
		return err
	})
}

// notAttached says why a volume could not be attached. One that had no place left is told
// to whoever decides about the pod, if the driver wants that, and the driver is asked.
func (p *Provider) notAttached(id volumeID, r rules, err error) error {
	if r.recount == 0 || !errors.Is(err, errNoPlace) {
		return err
	}
	p.limits.ask(id.driver)
	return fmt.Errorf("%w: %w", ErrAttachLimit, err)
}
