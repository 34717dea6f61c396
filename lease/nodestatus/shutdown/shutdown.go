package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Source says when the machine goes down, and holds it up meanwhile. *Logind and
// *Trigger are sources.
type Source interface {
	// Watch calls report with true when the machine is about to go down and with false
	// when that was called off, one call at a time, until ctx ends, which is no error.
	// need is how long the machine has to be held up. An error means that nothing is
	// watched any more; Watch is called again then.
	Watch(ctx context.Context, need time.Duration, report func(down bool)) error
	// Release lets the machine go down. It is called after report(true).
	Release() error
}

// What the kubelet says of pods that a shutdown meets.
const (
	// PodReason and PodMessage are what the status of a pod says that ended because the
	// machine went down, in the kubelet's words. Its condition DisruptionTarget has the
	// message, too.
	PodReason  = "Terminated"
	PodMessage = "Pod was terminated in response to imminent node shutdown."
	// RefusedReason and RefusedMessage are for pods that come meanwhile.
	RefusedReason  = "NodeShutdown"
	RefusedMessage = "Pod was rejected as the node is shutting down."
)

// retryAfter is the time after which a Source is asked again that failed; as in the
// kubelet.
const retryAfter = time.Second

// flushTime is how long Config.Flush may take beyond the periods of the pods. The machine
// is held up for it, too.
const flushTime = 5 * time.Second

// Config configures a Manager. Periods, Pods and Kill are required.
type Config struct {
	// Periods are the times of the priorities; see Periods.
	Periods []Period
	// Pods returns the pods that have to end.
	Pods func() []*corev1.Pod
	// Kill ends a pod, with a grace period for its processes, and returns when it has
	// ended and its volumes are gone. ctx ends with the time of its group; what has not
	// ended by then is left behind. It is called for all pods of a group at a time.
	Kill func(ctx context.Context, pod *corev1.Pod, grace time.Duration) error
	// Flush brings to the server what it should know before the machine is gone: that
	// the pods have ended. It has five seconds, for which the machine is held up beyond
	// the periods. nil: nothing.
	Flush func(ctx context.Context) error
	// Changed is told that the machine goes down, before any pod is ended, and that it
	// does not after all. The node has to look unready first. nil: nobody is told.
	Changed func(down bool)
	// StateFile keeps when the last shutdown began and ended; see ReadState. Empty: none.
	StateFile string
	// Log gets what happens; nil discards.
	Log *slog.Logger
}

// validate names the first field that is wrong and fills defaults in.
func (c Config) validate() (Config, error) {
	switch {
	case len(c.Periods) == 0:
		return c, errors.New("shutdown: Config.Periods is empty, want the times of the priorities")
	case c.Pods == nil:
		return c, errors.New("shutdown: Config.Pods is nil, want what returns the pods")
	case c.Kill == nil:
		return c, errors.New("shutdown: Config.Kill is nil, want what ends a pod")
	}
	for _, p := range c.Periods {
		if p.Grace < 0 {
			return c, fmt.Errorf("shutdown: the period of priority %d is %s, must not be negative", p.Priority, p.Grace)
		}
	}
	if c.Changed == nil {
		c.Changed = func(bool) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Manager ends the pods of a node when its machine goes down. Make one with New.
type Manager struct {
	source Source
	cfg    Config

	mu sync.Mutex // guards the fields below
	// down says that the machine goes down; cancel calls the ending of the pods off, and
	// ended is closed when that has returned.
	down   bool
	cancel context.CancelFunc
	ended  chan struct{}
}

// New returns a Manager. It does nothing yet.
func New(source Source, cfg Config) (*Manager, error) {
	if source == nil {
		return nil, errors.New("shutdown: the Source is nil")
	}
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Manager{source: source, cfg: cfg}, nil
}

// Down reports whether the machine is going down.
func (m *Manager) Down() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.down
}

// Run watches the Source until ctx ends, and ends the pods when the machine goes down.
// It returns nil.
func (m *Manager) Run(ctx context.Context) error {
	defer m.callOff()
	for failures := 0; ctx.Err() == nil; failures++ {
		err := m.source.Watch(ctx, m.need(), func(down bool) { m.report(ctx, down) })
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			err = errors.New("the source ended")
		}
		if failures&(failures-1) == 0 {
			m.cfg.Log.Warn("it is not seen when the machine goes down, trying again", "err", err)
		}
		timer := time.NewTimer(retryAfter)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// need returns how long the machine has to be held up.
func (m *Manager) need() time.Duration {
	need := Need(m.cfg.Periods)
	if m.cfg.Flush != nil {
		need += flushTime
	}
	return need
}

// report takes what the Source says.
func (m *Manager) report(ctx context.Context, down bool) {
	if down == m.Down() {
		return
	}
	if !down {
		m.cfg.Log.Info("the machine does not go down after all")
		m.callOff()
		m.cfg.Changed(false)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	m.mu.Lock()
	m.down, m.cancel, m.ended = true, cancel, ended
	m.mu.Unlock()
	m.cfg.Log.Warn("the machine goes down, ending the pods")
	m.cfg.Changed(true)
	go func() {
		defer close(ended)
		m.end(ctx)
	}()
}

// callOff stops ending pods and waits until that has happened.
func (m *Manager) callOff() {
	m.mu.Lock()
	cancel, ended := m.cancel, m.ended
	m.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	<-ended
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down, m.cancel = false, nil
}

// end ends all pods and then lets the machine go down.
func (m *Manager) end(ctx context.Context) {
	began := time.Now()
	m.note(State{Start: began})
	plan := MakePlan(m.cfg.Pods(), m.cfg.Periods)
	for _, g := range plan {
		if ctx.Err() != nil {
			return
		}
		m.endGroup(ctx, g)
	}
	if m.cfg.Flush != nil {
		flushCtx, cancel := context.WithTimeout(ctx, flushTime)
		if err := m.cfg.Flush(flushCtx); err != nil {
			m.cfg.Log.Warn("the server may not know that pods have ended", "err", err)
		}
		cancel()
	}
	if ctx.Err() != nil {
		return
	}
	m.note(State{Start: began, End: time.Now()})
	m.cfg.Log.Info("pods have ended, the machine may go down", "took", time.Since(began).Round(time.Millisecond))
	if err := m.source.Release(); err != nil {
		m.cfg.Log.Warn("the machine is still held up", "err", err)
	}
}

// endGroup ends the pods of one group. It returns when all have ended or their time is
// over.
func (m *Manager) endGroup(ctx context.Context, g Group) {
	ctx, cancel := context.WithTimeout(ctx, g.Period.Grace)
	defer cancel()
	var wg sync.WaitGroup
	for _, pod := range g.Pods {
		wg.Go(func() {
			grace := g.Grace(pod)
			if err := m.cfg.Kill(ctx, pod, grace); err != nil {
				m.cfg.Log.Warn("pod did not end in time", "pod", pod.Namespace+"/"+pod.Name, "grace", grace, "err", err)
			}
		})
	}
	wg.Wait()
}

// note writes the state file.
func (m *Manager) note(s State) {
	if m.cfg.StateFile == "" {
		return
	}
	if err := s.write(m.cfg.StateFile); err != nil {
		m.cfg.Log.Warn("the times of the shutdown are not kept", "err", err)
	}
}
