package conntrack

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// Config configures a Cleaner. The zero value works.
type Config struct {
	// NetNS is the path of the network namespace to clean, such as /run/netns/node.
	// Empty means that of the process.
	NetNS string
	// Delay is how long flows stay after they have become stale: with proxier/ipvs its
	// FlowsLeave, as an endpoint that is gone may answer for a while there, and the entries of
	// its flows have the answers masqueraded backwards. 0: they go at once.
	Delay time.Duration
	// Observe is told of every search. Nil is off.
	Observe func(Search)
	// Log gets what Run does. Nil discards it.
	Log *slog.Logger
}

// Search is one look for stale flows in one family.
type Search struct {
	Family proxier.Family
	// Frontends is the number of frontends that were looked at; 0 means all.
	Frontends int
	// Seen is the number of flows that the kernel showed, Deleted that of those it
	// was made to forget.
	Seen, Deleted int
	Took          time.Duration
	// Err is what kept the search from its end. It is made again.
	Err error
}

// pauseFactor is how many times as long as a search took the next one waits, minPause the
// least and maxPause the most: searches that take less than eight seconds take a fifth of a
// CPU at most. minRetry is when one that failed is made again, twice as late each time, up
// to maxPause.
const (
	pauseFactor = 4
	minPause    = 50 * time.Millisecond
	maxPause    = 30 * time.Second
	minRetry    = time.Second
)

// Cleaner deletes stale flows. It implements proxier.Follower.
type Cleaner struct {
	cfg  Config
	wake chan struct{} // size 1, never closed
	// late does what Reset and Applied are told, after Config.Delay.
	late *late
	// find is search.
	find func(ctx context.Context, f proxier.Family, frontends map[frontend]bool) (seen, deleted int, err error)
	// complaints are the errors that were logged last. They belong to the goroutine of Run.
	complaints map[proxier.Family]string

	// mu guards what follows. It is not held while the kernel is asked.
	mu      sync.Mutex
	wanted  wanted
	pending pending
}

var _ proxier.Follower = (*Cleaner)(nil)

// New returns a Cleaner that touches nothing before Run.
func New(cfg Config) (*Cleaner, error) {
	if cfg.Delay < 0 {
		return nil, fmt.Errorf("conntrack: Delay is %v: it must not be negative", cfg.Delay)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Search) {}
	}
	c := &Cleaner{
		cfg: cfg, wake: make(chan struct{}, 1), late: newLate(cfg.Delay), wanted: newWanted(), pending: newPending(), complaints: map[proxier.Family]string{},
	}
	c.find = c.search
	return c, nil
}

// Reset implements proxier.Follower. The first one has every flow looked at: those
// of an earlier process may be stale.
func (c *Cleaner) Reset(s *proxier.State) { c.late.add(func() { c.reset(s) }) }

func (c *Cleaner) reset(s *proxier.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.wanted.ports == nil
	c.wanted.reset(s, c.pending)
	if first {
		c.pending.everything()
	}
	c.wakeUpLocked()
}

// Applied implements proxier.Follower.
func (c *Cleaner) Applied(d proxier.Delta) { c.late.add(func() { c.applied(d) }) }

func (c *Cleaner) applied(d proxier.Delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range d.Remove {
		c.wanted.remove(k, c.pending)
	}
	for _, p := range d.Update {
		c.wanted.put(p, c.pending)
	}
	c.wakeUpLocked()
}

func (c *Cleaner) wakeUpLocked() {
	if c.pending.empty() {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run deletes stale flows until ctx ends, and then returns nil. What fails is
// logged, once while it is the same, and tried again: with the next change, and without
// one after a second, then ever later.
func (c *Cleaner) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { c.late.run(ctx) })
	var retry <-chan time.Time
	wait := minRetry
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake: // flows may be stale
		case <-retry: // stale flows are left
		}
		begin := time.Now()
		if c.clean(ctx) {
			retry, wait = nil, minRetry
		} else {
			retry, wait = time.After(wait), min(2*wait, maxPause)
		}
		t := time.NewTimer(min(max(pauseFactor*time.Since(begin), minPause), maxPause))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

// clean makes the searches that are pending and returns whether they succeeded;
// those that did not are pending again.
func (c *Cleaner) clean(ctx context.Context) bool {
	c.mu.Lock()
	todo := c.pending
	c.pending = newPending()
	c.mu.Unlock()
	ok := true
	for f, frontends := range todo {
		s := Search{Family: f, Frontends: len(frontends)}
		begin := time.Now()
		s.Seen, s.Deleted, s.Err = c.find(ctx, f, frontends)
		s.Took = time.Since(begin)
		if ctx.Err() != nil {
			return false
		}
		c.cfg.Observe(s)
		if s.Err != nil {
			ok = false
			c.complain(ctx, f, s.Err)
			c.mu.Lock()
			c.pending.addAll(f, frontends)
			c.mu.Unlock()
			continue
		}
		delete(c.complaints, f)
		if s.Deleted > 0 {
			c.cfg.Log.Debug("stale flows deleted", "family", f, "deleted", s.Deleted, "seen", s.Seen, "took", s.Took)
		}
	}
	return ok
}

// complain logs an error: a warning, and no more than that while it stays the same.
func (c *Cleaner) complain(ctx context.Context, f proxier.Family, err error) {
	level := slog.LevelWarn
	if c.complaints[f] == err.Error() {
		level = slog.LevelDebug
	}
	c.complaints[f] = err.Error()
	c.cfg.Log.Log(ctx, level, "stale flows may be left", "family", f, "err", err)
}

// maxFiltered is up to how many frontends the kernel is asked about one by one. Each
// is a walk of the kernel over its table, without copying what does not match.
const maxFiltered = 8

// search deletes the stale flows of these frontends; of all, if there are none. Those that
// the kernel does not delete keep no others.
func (c *Cleaner) search(ctx context.Context, f proxier.Family, frontends map[frontend]bool) (seen, deleted int, err error) {
	k, err := dial(c.cfg.NetNS)
	if err != nil {
		return 0, 0, err
	}
	defer k.close()
	local, err := k.localAddrs(ctx, f)
	if err != nil {
		return 0, 0, fmt.Errorf("list the addresses of the node: %w", err)
	}
	filters := []frontend{{}}
	if n := len(frontends); n > 0 && n <= maxFiltered {
		filters = filters[:0]
		for at := range frontends {
			filters = append(filters, at)
		}
	}
	var left error
	for _, filter := range filters {
		n, err := k.flows(ctx, f, filter, func(all []flow) error {
			gone, err := k.forget(ctx, f, c.stale(f, all, frontends, local))
			deleted += gone
			left = cmp.Or(left, err)
			return ctx.Err()
		})
		seen += n
		if err != nil {
			return seen, deleted, fmt.Errorf("search the connection table: %w", err)
		}
	}
	return seen, deleted, left
}

// stale returns those of all that lead nowhere.
func (c *Cleaner) stale(f proxier.Family, all []flow, frontends map[frontend]bool, local map[netip.Addr]bool) []flow {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []flow
	for _, fl := range all {
		at := frontend{addr: fl.dst.Addr(), port: fl.dst.Port()}
		serving, known := c.wanted.at(f, at)
		if !known && !frontends[at] && local[at.addr] {
			at.addr = netip.Addr{}
			serving, known = c.wanted.at(f, at)
		}
		asked := len(frontends) == 0 || frontends[at]
		switch {
		case !asked:
		case known && !serving[fl.from], !known && len(frontends) > 0 && fl.from != fl.dst:
			out = append(out, fl)
		}
	}
	return out
}
