package probes

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultMaxExec is the number of commands that run at a time when Config leaves
// it open: enough that hung commands of a full node (110 pods) with ordinary
// timeouts and periods hold up nobody, few enough not to starve the containers of
// their CPU.
const DefaultMaxExec = 64

// Config configures an Engine. The zero value works.
type Config struct {
	// Log gets changes of values and what goes wrong with probers; nil discards it.
	Log *slog.Logger
	// Hooks are told what happens.
	Hooks Hooks
	// MaxExec bounds the attempts of TimedProbers, which are commands in containers,
	// that run at a time; zero means DefaultMaxExec. A command that has outlived its
	// timeout no longer counts. Pods take turns at what is free.
	MaxExec int
}

// Engine runs the probes of many containers. One goroutine keeps the time of all
// of them, up to 16 make one attempt after the other until Run ends, and more exist
// only for as long as an attempt lasts. The methods may be called by several
// goroutines at once, before and during Run.
type Engine struct {
	cfg      Config
	jitter   func(time.Duration) time.Duration // from [0, d)
	epoch    time.Time                         // the zero of all times kept here
	wake     chan struct{}
	attempts sync.WaitGroup

	// mu guards what follows. It is not held while probers or hooks run.
	mu         sync.Mutex
	started    bool
	containers register
	timers     timers
	turns      turns
	load       Load
	stall      stall
}

// Load says how much an Engine has to do just now.
type Load struct {
	// Probes are those that have a next attempt, or one under way.
	Probes int
	// Running are the calls of probers under way, and Commands those of them that
	// count against Config.MaxExec.
	Running  int
	Commands int
	// Waiting are attempts whose time has come and that wait for other commands to
	// end.
	Waiting int
	// Overrun are the calls of Running whose time is over.
	Overrun int
}

// New returns an Engine without containers. It does nothing until Run.
func New(cfg Config) (*Engine, error) {
	return newWith(cfg, rand.N[time.Duration])
}

// newWith is New with a source of jitter.
func newWith(cfg Config, jitter func(time.Duration) time.Duration) (*Engine, error) {
	if cfg.MaxExec < 0 {
		return nil, fmt.Errorf("Config.MaxExec is %d: it must not be negative", cfg.MaxExec)
	}
	if cfg.MaxExec == 0 {
		cfg.MaxExec = DefaultMaxExec
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		cfg:        cfg,
		jitter:     jitter,
		epoch:      time.Now(),
		wake:       make(chan struct{}, 1),
		containers: newRegister(),
	}, nil
}

// Add starts the probes of a container that runs. A container whose ID is there
// already is left as it is, except that Terminating is taken over: what runs does
// not change its probes.
//
// A first attempt is made as soon as the initial delay is over. Only for
// containers that are older than the Engine it is put off by a random part of the
// period, so that a restarted agent does not probe all its containers at once.
func (e *Engine) Add(c Container) error {
	if err := c.validate(); err != nil {
		return fmt.Errorf("probe container %q of pod %s/%s: %w", c.Ref.Name, c.Ref.Namespace, c.Ref.Pod, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.containers.byID[c.Ref.ID]
	if known == nil {
		known = newEntry(c, e.since(c.StartedAt))
		e.containers.add(known)
		e.activate(known, true)
	}
	if c.Terminating {
		e.quiet(known)
	}
	return nil
}

// Remove ends the probes of a container and forgets it. Attempts under way are
// cancelled and come to nothing. An unknown ID is no error.
func (e *Engine) Remove(id string) {
	e.mu.Lock()
	en := e.containers.byID[id]
	if en == nil {
		e.mu.Unlock()
		return
	}
	e.containers.drop(en)
	for _, w := range en.workers {
		if w != nil {
			e.halt(w)
		}
	}
	e.mu.Unlock()
	if removed := e.cfg.Hooks.Removed; removed != nil {
		removed(en.ref)
	}
}

// Set makes containers the ones of a pod that are probed: it adds those that are
// new and removes those of the pod that are not listed. The error names every
// container that could not be added; the others were.
func (e *Engine) Set(pod types.UID, containers []Container) error {
	keep := make(map[string]bool, len(containers))
	var errs []error
	for _, c := range containers {
		c.Ref.UID = pod
		keep[c.Ref.ID] = true
		if err := e.Add(c); err != nil {
			errs = append(errs, err)
		}
	}
	for _, id := range e.idsOf(pod) {
		if !keep[id] {
			e.Remove(id)
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) idsOf(pod types.UID) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := make([]string, 0, len(e.containers.byPod[pod]))
	for _, en := range e.containers.byPod[pod] {
		ids = append(ids, en.ref.ID)
	}
	return ids
}

// Terminate says that the pod of a container is going down. Its startup and
// liveness probes end with the value Success, so that the container is not
// stopped a second time; its readiness probe goes on, so that traffic ends when
// the container says so. No hook is told. An unknown ID is no error.
func (e *Engine) Terminate(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if en := e.containers.byID[id]; en != nil {
		e.quiet(en)
	}
}

// TerminatePod is Terminate for every container of a pod.
func (e *Engine) TerminatePod(pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, en := range e.containers.byPod[pod] {
		e.quiet(en)
	}
}

// Trigger makes an attempt at a probe right away instead of at its time; the
// period counts from it. If one is under way, another follows it. Trigger reports
// false, and does nothing, when the probe has nothing to find out now: it does
// not exist, is on hold, waits for the container to start, or its initial delay
// is not over.
func (e *Engine) Trigger(id string, k Kind) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.containers.byID[id].worker(k)
	if w == nil {
		return false
	}
	now := e.now()
	switch w.state {
	case waiting:
		if now < w.entry.started+w.probe.Schedule.InitialDelay {
			return false
		}
		w.due = now
		e.schedule(w)
	case running, reporting, overrun:
		w.flight.again = true
	case idle, stopped:
		return false
	case queued:
	}
	return true
}

// Values returns the values of the probes of a container, and whether there is
// such a container.
func (e *Engine) Values(id string) (Values, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.containers.byID[id]
	if en == nil {
		return Values{}, false
	}
	return en.values(), true
}

// Load returns how much there is to do.
func (e *Engine) Load() Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.load
}

// now returns the time since the epoch.
func (e *Engine) now() time.Duration { return time.Since(e.epoch) }

// since returns the time of t since the epoch: negative for a container that is
// older than the Engine. A zero t, and one in the future, is now.
func (e *Engine) since(t time.Time) time.Duration {
	now := e.now()
	if t.IsZero() {
		return now
	}
	return now - max(0, time.Since(t))
}
