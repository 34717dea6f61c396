package podworker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures a Pool. The zero value works.
type Config struct {
	// Log gets failed calls and changes of phase; nil discards.
	Log *slog.Logger
	// Resync is the longest time between two Syncs of a pod, lengthened at random
	// by up to a half; 0 means 1 m, the kubelet's default syncFrequency.
	Resync time.Duration
	// Backoff is the wait after a call that returned an error, lengthened at
	// random by up to a half; 0 means 10 s, as in the kubelet. An error with a
	// method RetryAfter() time.Duration names its own wait, bounded by one second
	// and by Resync.
	Backoff time.Duration
}

// validate fills the defaults in and names the first field that is wrong.
func (c Config) validate() (Config, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Resync == 0 {
		c.Resync = time.Minute
	}
	if c.Backoff == 0 {
		c.Backoff = 10 * time.Second
	}
	if c.Resync < 0 {
		return c, fmt.Errorf("podworker: Config.Resync is %s, want a positive duration", c.Resync)
	}
	if c.Backoff < 0 {
		return c, fmt.Errorf("podworker: Config.Backoff is %s, want a positive duration", c.Backoff)
	}
	return c, nil
}

// Pool keeps one worker per pod UID. Its methods may be called from any goroutine,
// also before and after Run; none but Run and Wait blocks.
type Pool struct {
	syncer Syncer
	log    *slog.Logger
	// poke wakes Run; it never holds more than one wake-up.
	poke chan struct{}

	// mu guards the fields below. It is never held while a Syncer is called.
	mu      sync.Mutex
	machine *machine
	// todo are effects Run has not seen yet, the first of them since behind.
	todo   []effect
	behind time.Time
	// cancels has the cancel function of each call that is out.
	cancels map[types.UID]context.CancelCauseFunc
	// changed is closed at the next step; nil while nobody waits.
	changed chan struct{}
	// ran is true once Run was called, over once it returned.
	ran, over bool
}

// New returns a Pool that works with s.
func New(s Syncer, cfg Config) (*Pool, error) {
	return newWith(s, cfg, halfLonger)
}

// newWith is New with its randomness handed in.
func newWith(s Syncer, cfg Config, jitter func(time.Duration) time.Duration) (*Pool, error) {
	if s == nil {
		return nil, errors.New("podworker: New needs a Syncer")
	}
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Pool{
		syncer:  s,
		log:     cfg.Log,
		poke:    make(chan struct{}, 1),
		machine: newMachine(cfg.Resync, cfg.Backoff, jitter),
		cancels: map[types.UID]context.CancelCauseFunc{},
	}, nil
}

// halfLonger returns d lengthened at random by up to a half.
func halfLonger(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// Update hands in the newest version of a wanted pod; the latest wins. A UID that
// is new starts, unless the pod is deleted or its status has a terminal phase:
// then it is only stopped and cleaned up. For a known UID it causes a Sync, or its
// termination if the pod now has a deletionTimestamp.
//
// A UID that vanished (see Retain) and comes back while it is still ending starts
// anew once it has finished. A static pod, which is one whose annotation
// kubernetes.io/config.source is neither empty nor "api", waits until every other
// pod of its namespace and name has finished.
//
// The Pool keeps the pointer: pod must not be changed afterwards. A pod without a
// UID is logged as an error and ignored: it could not be told from another one.
func (p *Pool) Update(pod *corev1.Pod) {
	if p.known(pod) {
		p.step(updated{pod})
	}
}

// known reports whether the pod has a name of its own for the Pool.
func (p *Pool) known(pod *corev1.Pod) bool {
	if pod.UID == "" {
		p.log.Error("pod without UID ignored", "pod", pod.Namespace+"/"+pod.Name)
		return false
	}
	return true
}

// Terminate asks the pod to end. Further calls may only make the grace period
// shorter: then the call of the Syncer that is out is cancelled and made again.
// The pod stays stopped, even if Update names it again, until Retain has seen it
// vanish. An unknown UID is ignored.
func (p *Pool) Terminate(uid types.UID, t Termination) { p.step(ended{uid, t}) }

// TerminateOrphan stops and cleans up a pod that no source names, from what the
// runtime remembers of it: Sync is never called with it. A pod whose UID is known
// is left as it is, and one without a UID is ignored, as by Update.
func (p *Pool) TerminateOrphan(pod *corev1.Pod, t Termination) {
	if p.known(pod) {
		p.step(orphaned{pod, t})
	}
}

// Wake says that something about the pod may have changed: it is looked at at
// once, within a second of its last failure, or after the call that is out. An
// unknown UID is ignored.
func (p *Pool) Wake(uid types.UID) { p.step(woken{uid}) }

// Retain names the whole set of wanted pods. Every other pod has vanished: it
// terminates with its own grace period and is forgotten once it has finished. Do
// not call it before every source of pods has been heard.
func (p *Pool) Retain(uids iter.Seq[types.UID]) {
	set := map[types.UID]struct{}{}
	for uid := range uids {
		set[uid] = struct{}{}
	}
	p.step(retained{set})
}

// Vanish says that a pod is wanted no more although the whole set of wanted pods is not
// known, such as the old version of a manifest that was edited: it ends as one that Retain
// does not name. An unknown UID is ignored.
func (p *Pool) Vanish(uid types.UID) { p.step(vanished{uid}) }

// State returns what is known of a pod. The State of an unknown pod answers its
// methods, too; the bool is false then.
func (p *Pool) State(uid types.UID) (State, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine.state(uid)
}

// Ending reports whether a static pod of this namespace and name is being stopped or
// cleaned up. Until then its mirror pod stays, to show how it ends.
func (p *Pool) Ending(namespace, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine.ending(namespace + "/" + name)
}

// All returns the States of all known pods at this moment, in no order.
func (p *Pool) All() iter.Seq2[types.UID, State] {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[types.UID]State, len(p.machine.workers))
	for uid := range p.machine.workers {
		all[uid], _ = p.machine.state(uid)
	}
	return func(yield func(types.UID, State) bool) {
		for uid, s := range all {
			if !yield(uid, s) {
				return
			}
		}
	}
}

// Lag returns for how long Run has left undone what it should have done: near zero
// while it works, growing when it is stuck, has ended, or was never called. Calls of
// the Syncer do not count, however long they take.
func (p *Pool) Lag() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lag time.Duration
	if len(p.todo) > 0 {
		lag = time.Since(p.behind)
	}
	if next := p.machine.next(); !next.IsZero() {
		lag = max(lag, time.Since(next))
	}
	return lag
}

// Wait blocks until the pod has reached phase or a later one. A pod that is
// unknown, becomes forgotten, or begins a new life under the same UID counts as
// having reached every phase. The error is that of ctx.
func (p *Pool) Wait(ctx context.Context, uid types.UID, phase Phase) (State, error) {
	first, ok := p.State(uid)
	for s := first; ; s, ok = p.State(uid) {
		if !ok || s.birth != first.birth || s.Phase >= phase {
			return s, nil
		}
		select {
		case <-p.nextChange(uid, s):
		case <-ctx.Done():
			return s, fmt.Errorf("wait for pod %s to be %s, now %s: %w", uid, phase, s.Phase, ctx.Err())
		}
	}
}

// nextChange returns a channel that is closed at the next step, or is closed
// already if the pod is no longer in state s.
func (p *Pool) nextChange(uid types.UID, s State) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, _ := p.machine.state(uid); now.birth != s.birth || now.Phase != s.Phase {
		c := make(chan struct{})
		close(c)
		return c
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// Run does the work until ctx ends; then it cancels all calls, waits for them to
// return and returns nil. It leaves the pods as they are. Run may be called once.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	again := p.ran
	p.ran = true
	p.mu.Unlock()
	if again {
		return errors.New("podworker: Run was called a second time")
	}
	var calls sync.WaitGroup
	defer p.end()
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.poke: // something happened
		case <-timer.C: // a call is due
			p.step(ticked{})
		}
		for _, e := range p.take() {
			p.do(ctx, &calls, e)
		}
		timer.Reset(p.untilNext())
	}
}

// end makes the Pool forget what nobody will do any more.
func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.todo = true, nil
}

// step tells the machine what happened and leaves its answer to Run.
func (p *Pool) step(ev event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepLocked(ev)
}

// stepLocked is step with mu held.
func (p *Pool) stepLocked(ev event) {
	effects := p.machine.step(time.Now(), ev)
	if len(p.todo) == 0 {
		p.behind = time.Now()
	}
	if !p.over {
		p.todo = append(p.todo, effects...)
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// take returns the effects that are to be done.
func (p *Pool) take() []effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	todo := p.todo
	p.todo = nil
	return todo
}

// idle is how long Run sleeps when no call is due at all.
const idle = time.Hour

// untilNext is the time until the machine wants a tick.
func (p *Pool) untilNext() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.machine.next()
	if next.IsZero() {
		return idle
	}
	return max(0, time.Until(next))
}

// do carries out one effect.
func (p *Pool) do(ctx context.Context, calls *sync.WaitGroup, e effect) {
	switch e := e.(type) {
	case call:
		ctx, cancel := context.WithCancelCause(ctx)
		p.mu.Lock()
		p.cancels[e.uid] = cancel
		p.mu.Unlock()
		calls.Go(func() {
			defer cancel(nil)
			p.call(ctx, e)
		})
	case cancel:
		p.mu.Lock()
		stop := p.cancels[e.uid]
		p.mu.Unlock()
		if stop != nil {
			stop(ErrInterrupted)
		}
	case moved:
		p.podLog(e.pod).Debug("pod phase changed", "from", e.from.String(), "to", e.to.String())
	case refused:
		p.podLog(e.pod).Error("illegal change of pod phase refused", "from", e.from.String(), "to", e.to.String())
	case failed:
		if ctx.Err() == nil {
			p.podLog(e.pod).Warn("pod could not be synced", "call", method(e.phase), "err", e.err, "retry", e.retry)
		}
	}
}

// podLog is the logger for one pod.
func (p *Pool) podLog(pod *corev1.Pod) *slog.Logger {
	return p.log.With("pod", pod.Namespace+"/"+pod.Name, "uid", string(pod.UID))
}

// call makes one call of the Syncer and reports its end to the machine.
func (p *Pool) call(ctx context.Context, c call) {
	outcome, err := p.guard(ctx, c)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cancels, c.uid)
	p.stepLocked(returned{c.uid, outcome, err})
}

// guard turns a panic of the Syncer into an error: one pod's bug must not stop the
// others.
func (p *Pool) guard(ctx context.Context, c call) (outcome Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s panicked: %v\n%s", method(c.phase), r, debug.Stack())
		}
	}()
	switch c.phase {
	case Syncing:
		return p.syncer.Sync(ctx, c.pod)
	case Terminating:
		return Outcome{}, p.syncer.SyncTerminating(ctx, c.pod, c.t)
	case Terminated:
		return Outcome{}, p.syncer.SyncTerminated(ctx, c.pod)
	}
	return Outcome{}, fmt.Errorf("no call belongs to phase %s", c.phase)
}
