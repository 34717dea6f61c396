//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Times of the kubelet's volume manager: how long a sync of a pod waits for its volumes,
// and how long a failed volume rests before it is tried again.
const (
	setUpTimeout = 2*time.Minute + 3*time.Second
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 2*time.Minute + 2*time.Second
)

var errLeaving = errors.New("the volumes of the pod are being torn down")

// SetUp makes the volumes that containers of a pod mount ready, all at once, and returns
// them by name; images are not among them. What fails is tried again, with back-off and
// when Changed tells of an object it needs, until ctx ends or two minutes and three seconds
// have passed. What hangs holds up no other volume.
//
// Called again, it brings content up to date; what cannot be is left as it was, if it was
// complete once, and users get an event. Content is always of the newest pod that SetUp or
// Update was given.
func (m *Manager) SetUp(ctx context.Context, pod *corev1.Pod) (map[string]Mounted, error) {
	volumes, err := mountedVolumes(pod)
	if err != nil {
		return nil, fmt.Errorf("set up volumes of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if len(volumes) == 0 {
		return map[string]Mounted{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	r, states, err := m.enter(pod, volumes)
	if err != nil {
		return nil, fmt.Errorf("set up volumes of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var waiting sync.WaitGroup
	for _, s := range states {
		waiting.Go(func() { m.ensure(ctx, r, s) })
	}
	waiting.Wait()
	return m.result(ctx, r, states)
}

// enter notes a pod and its volumes.
func (m *Manager) enter(pod *corev1.Pod, volumes []*corev1.Volume) (*record, []*state, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[pod.UID]
	switch {
	case r == nil:
		r = &record{volumes: map[string]*state{}}
		m.pods[pod.UID] = r
	case r.leaving:
		return nil, nil, errLeaving
	}
	r.become(pod)
	states := make([]*state, len(volumes))
	for i, v := range volumes {
		s := r.volumes[v.Name]
		if s == nil {
			s = &state{changed: make(chan struct{})}
			r.volumes[v.Name] = s
		}
		s.volume = v
		states[i] = s
	}
	return r, states, nil
}

// ensure makes a volume ready and up to date, and returns when it is, or when nothing more
// can be done.
func (m *Manager) ensure(ctx context.Context, r *record, s *state) {
	for {
		wait, more := m.step(ctx, r, s)
		if !more {
			return
		}
		select {
		case <-wait.done: // nil between attempts
		case <-wait.changed: // nil during one
		case <-wait.timer(): // nil during one
		case <-ctx.Done():
			return
		}
	}
}

// pause is what to wait for: the end of an attempt, or the next one.
type pause struct {
	done    <-chan struct{}
	changed <-chan struct{}
	rest    time.Duration
}

func (p *pause) timer() <-chan time.Time {
	if p.done != nil {
		return nil
	}
	return time.After(p.rest)
}

// step returns what to wait for, if anything. It begins an attempt if one is due.
func (m *Manager) step(ctx context.Context, r *record, s *state) (wait pause, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	current := s.shown == r.version && !s.touched
	rest := time.Until(s.next)
	switch {
	case r.leaving || ctx.Err() != nil:
		return pause{}, false
	case s.running != nil:
		return pause{done: s.running.done}, true
	case s.ready && (current || s.fixed || !changes(s.volume)):
		return pause{}, false
	case s.fails > 0 && current && rest > 0:
		return pause{rest: rest, changed: s.changed}, true
	}
	return pause{done: m.beginLocked(ctx, r, s).done}, true
}

// beginLocked begins to set up a volume. It ends by itself, whoever waits for it.
func (m *Manager) beginLocked(ctx context.Context, r *record, s *state) *attempt {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUpTimeout)
	s.running = &attempt{cancel: cancel, done: make(chan struct{})}
	s.touched, s.shown = false, r.version
	pod, v := r.pod, s.volume
	m.goLocked(func() {
		defer cancel()
		began := time.Now()
		out := m.setUp(ctx, pod, v)
		m.cfg.OnAttempt(Attempt{Plugin: pluginOf(v), Took: time.Since(began), Err: out.err})
		m.finish(r, s, out)
	})
	return s.running
}

// outcome is how an attempt ended.
type outcome struct {
	mounted Mounted
	usable  bool // also after an error: what was there before is complete
	fixed   bool
	err     error
}

// finish notes how an attempt ended, and when the next one is due.
func (m *Manager) finish(r *record, s *state, out outcome) {
	m.mu.Lock()
	quiet, pod, name := r.leaving, r.pod, s.volume.Name
	a := s.running
	s.running = nil
	s.err = out.err
	if out.usable {
		s.ready, s.mounted, s.fixed = true, out.mounted, out.fixed
	}
	now := time.Now()
	switch {
	case out.err != nil:
		s.fails++
		s.next = now.Add(backoff(s.fails))
	default:
		s.fails = 0
		s.next = m.due(s, now)
	}
	close(a.done)
	m.mu.Unlock()
	if out.err != nil && !quiet {
		m.event(pod, warning("FailedMount", fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", name, out.err)))
		m.cfg.Log.Warn("a volume cannot be set up, it will be tried again",
			"pod", pod.Namespace+"/"+pod.Name, "uid", string(pod.UID), "volume", name, "usable", out.usable, "err", out.err)
	}
	m.wakeUp()
}

// due returns when a volume that was set up has to be so again: never at once, whatever its
// provider says.
func (m *Manager) due(s *state, now time.Time) time.Time {
	at := s.mounted.RefreshAt
	if soonest := now.Add(firstBackoff); !at.IsZero() && at.Before(soonest) {
		at = soonest
	}
	if !changes(s.volume) || s.fixed {
		return at
	}
	sweep := now.Add(m.cfg.Resync + rand.N(m.cfg.Resync/2+1))
	if at.IsZero() || sweep.Before(at) {
		return sweep
	}
	return at
}

func backoff(fails int) time.Duration {
	wait := firstBackoff
	for i := 1; i < fails && wait < lastBackoff; i++ {
		wait *= 2
	}
	return min(wait, lastBackoff)
}

// result returns the volumes if all are ready, or says which are not and why.
func (m *Manager) result(ctx context.Context, r *record, states []*state) (map[string]Mounted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]Mounted, len(states))
	failed := &SetUpError{cause: ctx.Err()}
	for _, s := range states {
		name := s.volume.Name
		if s.ready {
			out[name] = s.mounted
			continue
		}
		failed.Unmounted = append(failed.Unmounted, name)
		if s.err != nil {
			failed.errs = append(failed.errs, fmt.Errorf("volume %q: %w", name, s.err))
		}
	}
	switch {
	case r.leaving:
		return nil, errLeaving
	case len(failed.Unmounted) > 0:
		slices.Sort(failed.Unmounted)
		return nil, failed
	}
	return out, nil
}

// SetUpError says which volumes of a pod are not ready, in the words of the kubelet. It
// wraps the last error of each.
type SetUpError struct {
	// Unmounted are the names of the volumes.
	Unmounted []string
	cause     error
	errs      []error
}

// Error lists the volumes, then what ended the wait, then what is wrong with each.
func (e *SetUpError) Error() string {
	text := fmt.Sprintf("unmounted volumes=%v, unattached volumes=[], failed to process volumes=[]: %v", e.Unmounted, e.cause)
	if len(e.errs) == 0 {
		return text
	}
	return text + ": " + strings.ReplaceAll(errors.Join(e.errs...).Error(), "\n", "; ")
}

// Unwrap returns what ended the wait and what is wrong with each volume.
func (e *SetUpError) Unwrap() []error { return append([]error{e.cause}, e.errs...) }
