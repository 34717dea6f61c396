package proxier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Defaults of Config.
const (
	DefaultMaxPause = 20 * time.Millisecond
	DefaultMinRetry = 100 * time.Millisecond
	DefaultMaxRetry = 30 * time.Second
)

// Config configures a Proxier. The zero value works: no endpoint is local then.
type Config struct {
	// Node is this node. Its zone can change later: SetZone.
	Node Node
	// ProxyName is TrackerConfig.ProxyName.
	ProxyName string
	// MinInterval is the pause between the end of one round and the start of the
	// next, in which changes gather; a change after a longer quiet is programmed at
	// once. 0 means a pause of four times as long as the round took, at least a
	// millisecond and at most DefaultMaxPause, so that the Backend is busy for a
	// fifth of the time. Less than 0 means no pause.
	MinInterval time.Duration
	// MinRetry is the wait after a first failed round. It doubles with each further
	// failure up to MaxRetry. 0 means DefaultMinRetry and DefaultMaxRetry.
	MinRetry time.Duration
	MaxRetry time.Duration
	// Report is told each Problem of an object once, while a lock is held: it must
	// not call the Proxier. Nil writes them to Log.
	Report func(Problem)
	// Network is what the Backend is told of node and cluster until SetNetwork.
	Network Network
	// Followers are told what is in force.
	Followers []Follower
	// Observe is told of every round that called the Backend, between rounds. Nil
	// is off.
	Observe func(Round)
	// Log gets what Run does. Nil discards it.
	Log *slog.Logger
}

func (c *Config) complete() error {
	if c.MinRetry == 0 {
		c.MinRetry = DefaultMinRetry
	}
	if c.MaxRetry == 0 {
		c.MaxRetry = max(DefaultMaxRetry, c.MinRetry)
	}
	if c.MinRetry < 0 {
		return fmt.Errorf("MinRetry is %v: it must not be negative", c.MinRetry)
	}
	if c.MaxRetry < c.MinRetry {
		return fmt.Errorf("MaxRetry is %v: it must not be less than MinRetry, %v", c.MaxRetry, c.MinRetry)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		log := c.Log
		c.Report = func(p Problem) {
			log.Warn("object cannot be honoured as written", "kind", p.Kind,
				"object", p.Namespace+"/"+p.Name, "field", p.Field, "reason", p.Reason)
		}
	}
	if c.Observe == nil {
		c.Observe = func(Round) {}
	}
	return nil
}

// Round is one call of the Backend.
type Round struct {
	// Reset tells a Reset from an Apply.
	Reset bool
	// Ports is the number of ServicePorts written, Removed that of keys removed.
	Ports   int
	Removed int
	// Queued is how long the oldest change waited before the round began.
	Queued time.Duration
	// Took is the time in the Backend.
	Took time.Duration
	// Triggers are when the causes of the changes were seen by the cluster, as far
	// as EndpointSlices tell. A failed round passes them on to the next.
	Triggers []time.Time
	// Err is what the Backend returned.
	Err error
}

// Proxier keeps a Backend at the desired state that its feeds describe. All methods
// are safe for concurrent use.
type Proxier struct {
	backend Backend
	cfg     Config
	wake    chan struct{} // size 1, never closed
	broom   broom

	// mu guards what follows. It is not held while the Backend works.
	mu      sync.Mutex
	tracker *Tracker
	waiting []*Feed // not yet synced
	running bool
	reset   bool // the next round is a Reset
	network Network
	// triggers are those of Round, of the changes not in force; begun is when Run was
	// called: older ones tell of what an earlier process did.
	triggers []time.Time
	begun    time.Time
	// queued and working are since when the oldest change waits that no round has
	// taken, and the oldest in the round under way.
	queued  time.Time
	working time.Time
	// pending are the changes that no round has taken, taken those of the round under way.
	pending, taken Changes
	status         Status // but for Waiting, QueuedSince and Pending
}

// New returns a Proxier of b. It does nothing until Run.
func New(b Backend, cfg Config) (*Proxier, error) {
	if b == nil {
		return nil, errors.New("proxier: the Backend is nil")
	}
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("proxier: %w", err)
	}
	return &Proxier{
		backend: b, cfg: cfg, wake: make(chan struct{}, 1), broom: newBroom(b, cfg), reset: true, network: cfg.Network,
		tracker: NewTracker(TrackerConfig{Node: cfg.Node, ProxyName: cfg.ProxyName, Report: cfg.Report}),
	}, nil
}

// SetZone changes the zone of this node.
func (p *Proxier) SetZone(zone string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracker.SetZone(zone)
	p.queueLocked()
}

// SetNetwork changes what the Backend knows of node and cluster. If that is
// something new, the next round programs the whole state.
func (p *Proxier) SetNetwork(n Network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.Equal(p.network) {
		return
	}
	p.network, p.reset = n, true
	p.queueLocked()
}

// RequestReset has the next round program the whole state, whatever the Backend
// was told before. It is for whoever notices that the kernel has drifted.
func (p *Proxier) RequestReset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset = true
	p.queueLocked()
}

// Run programs what the feeds deliver until ctx ends, and then returns nil; what is
// in force stays. It waits for every feed to be synced, resets the Backend once,
// and then applies changes. What the Backend refuses is logged and tried again, as
// a Reset, for as long as it takes. Run may be called once.
func (p *Proxier) Run(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	if !p.awaitFeeds(ctx) {
		return nil
	}
	retry := p.cfg.MinRetry
	for {
		pause, err := p.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			pause, retry = retry, min(2*retry, p.cfg.MaxRetry)
			p.cfg.Log.Warn("proxy state is not in force", "err", err, "retry", pause)
		} else {
			retry = p.cfg.MinRetry
		}
		if !sleep(ctx, pause) {
			return nil
		}
		if err == nil && !p.await(ctx) {
			return nil
		}
	}
}

// await returns true when something has changed, and false when ctx ends first.
// Meanwhile the Backend tidies up.
func (p *Proxier) await(ctx context.Context) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.wake: // something changed
			return true
		case <-p.broom.due: // something may be left
			p.broom.sweep(ctx)
		}
	}
}

// pause returns how long to gather changes after a call of the Backend.
func (p *Proxier) pause(took time.Duration) time.Duration {
	if p.cfg.MinInterval != 0 {
		return p.cfg.MinInterval
	}
	return min(max(4*took, time.Millisecond), DefaultMaxPause)
}

func (p *Proxier) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		return errors.New("proxier: Run was called before")
	}
	p.running, p.begun = true, time.Now()
	// Nothing is in force yet, so a Proxier that cannot start does not look healthy.
	p.queueLocked()
	return nil
}

// awaitFeeds returns false when ctx ends first.
func (p *Proxier) awaitFeeds(ctx context.Context) bool {
	for first := true; ; first = false {
		waiting := p.Status().Waiting
		if len(waiting) == 0 {
			return ctx.Err() == nil
		}
		if first {
			p.cfg.Log.Info("waiting for feeds", "feeds", waiting)
		}
		select {
		case <-ctx.Done():
			return false
		case <-p.wake: // a feed may have become synced
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// work is what one round has to do: reset to state, or apply delta.
type work struct {
	state    *State
	delta    Delta
	since    time.Time // of the oldest change in it
	triggers []time.Time
}

// round takes what has changed, programs it, and gives it back if that fails. It
// returns how long to gather changes after it: not at all when there was nothing for the
// Backend, as when endpoints come before their Service.
func (p *Proxier) round(ctx context.Context) (time.Duration, error) {
	w := p.take()
	r := Round{Reset: w.state != nil, Ports: len(w.delta.Update), Removed: len(w.delta.Remove), Triggers: w.triggers}
	begin := time.Now()
	if !w.since.IsZero() {
		r.Queued = begin.Sub(w.since)
	}
	switch {
	case w.state != nil:
		r.Ports = len(w.state.Ports)
		if err := p.backend.Reset(ctx, w.state); err != nil {
			r.Err = fmt.Errorf("reset to %d service ports: %w", r.Ports, err)
		}
	case w.delta.Empty():
		p.settle(nil, w)
		return 0, nil
	default:
		if err := p.backend.Apply(ctx, w.delta); err != nil {
			r.Err = fmt.Errorf("apply %d new or changed and %d removed service ports: %w", r.Ports, r.Removed, err)
		}
	}
	r.Took = time.Since(begin)
	if r.Err == nil {
		p.follow(w)
		if r.Reset {
			p.broom.begin()
		}
	}
	p.settle(r.Err, w)
	p.cfg.Observe(r)
	p.log(r)
	return p.pause(r.Took), r.Err
}

func (p *Proxier) follow(w work) {
	for _, f := range p.cfg.Followers {
		if w.state != nil {
			f.Reset(w.state)
		} else {
			f.Applied(w.delta)
		}
	}
}

func (p *Proxier) log(r Round) {
	if r.Err == nil && r.Reset {
		p.cfg.Log.Info("proxy state is in force", "ports", r.Ports, "took", r.Took)
	} else if r.Err == nil {
		p.cfg.Log.Debug("proxy state changed", "ports", r.Ports, "removed", r.Removed,
			"queued", r.Queued, "took", r.Took)
	}
}

func (p *Proxier) take() work {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working, p.queued = p.queued, time.Time{}
	w := work{since: p.working, triggers: p.triggers}
	p.triggers = nil
	p.taken, p.pending = p.pending, Changes{}
	if p.reset {
		p.reset = false
		w.state = p.tracker.State()
		w.state.Network = p.network
	} else {
		w.delta = p.tracker.Delta()
	}
	return w
}

// settle ends a round; what it could not put in force waits on.
func (p *Proxier) settle(err error, w work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, taken := p.working, p.taken
	p.working, p.taken = time.Time{}, Changes{}
	if err == nil {
		p.status.LastSuccess, p.status.LastError, p.status.Failures = time.Now(), nil, 0
		return
	}
	p.reset, p.queued, p.pending = true, since, p.pending.plus(taken)
	p.triggers = append(w.triggers, p.triggers...)
	p.triggers = p.triggers[:min(len(p.triggers), maxTriggers)]
	p.status.LastError = err
	p.status.Failures++
}

// queueLocked notes that something waits to be programmed and wakes Run.
func (p *Proxier) queueLocked() {
	if p.queued.IsZero() {
		p.queued = time.Now()
	}
	p.wakeUp()
}

func (p *Proxier) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
