package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// firstRetry and maxRetry bound the waits after the API server refused something,
	// which concerns one pod.
	firstRetry = time.Second
	maxRetry   = time.Minute
	// firstOutage and maxOutage bound the waits while it does not answer, which concerns
	// all: one at a time asks whether it is back.
	firstOutage = 500 * time.Millisecond
	maxOutage   = 10 * time.Second
	// endingPoll is how often it is asked whether a pod has ended. The kubelet looks
	// every two seconds.
	endingPoll = time.Second
	// firstLook is how long a watch may take to show what was made before the API server
	// is asked whether it is still there.
	firstLook = 5 * time.Second
	// parallel is how many names are looked after at a time.
	parallel = 8
	// maxSteps is how many steps are taken for one name before others have their turn:
	// remove, create, and look at what was there before us, twice.
	maxSteps = 6
)

// outage says whether the API server can be reached. The zero value says it can.
type outage struct {
	wait  time.Duration
	until time.Time
}

func (o *outage) on() bool { return o.wait > 0 }

func (o *outage) failed(now time.Time) {
	o.wait = min(max(firstOutage, 2*o.wait), maxOutage)
	o.until = now.Add(o.wait)
}

// Run works until ctx ends; then it waits for the calls that are out and returns nil.
// It is called once.
func (k *Keeper) Run(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake: // something changed, or a name was looked after
		case <-timer.C: // a name has become due
		}
		names, next := k.due(time.Now())
		node := sync.OnceValues(func() (types.UID, error) { return k.node(ctx) })
		for _, name := range names {
			calls.Go(func() { k.attend(ctx, name, node) })
		}
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// node returns the UID of the Node.
func (k *Keeper) node(ctx context.Context) (types.UID, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	uid, err := k.cfg.Node(ctx)
	if err == nil && uid == "" {
		err = errors.New("it has no UID")
	}
	if err != nil {
		return "", fmt.Errorf("find the Node %s, which owns the mirror pods: %w", k.cfg.Name, err)
	}
	return uid, nil
}

// due takes the names that may be looked after now, and tells when to ask again; 0:
// when woken.
func (k *Keeper) due(now time.Time) (names []types.NamespacedName, next time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.synced {
		return nil, 0
	}
	free := parallel
	if k.outage.on() {
		if wait := k.outage.until.Sub(now); wait > 0 {
			return nil, wait
		}
		free = 1
	}
	for _, e := range k.entries {
		if e.busy {
			free--
		}
	}
	for name := range k.dirty {
		e := k.entries[name]
		switch wait := e.due.Sub(now); {
		case e.busy:
		case wait > 0:
			if next == 0 || wait < next {
				next = wait
			}
		case free > 0:
			e.busy = true
			names = append(names, name)
			free--
		}
	}
	return names, next // who ends wakes the loop
}

// attend looks after one name.
func (k *Keeper) attend(ctx context.Context, name types.NamespacedName, node func() (types.UID, error)) {
	r := k.bring(ctx, name, node)
	if r.err != nil && ctx.Err() != nil {
		return // Run is over
	}
	k.mu.Lock()
	e := k.entries[name]
	said := e.said
	k.learnLocked(name, e, r, time.Now())
	k.mu.Unlock()
	k.wakeUp()
	if r.err == nil {
		return
	}
	level := slog.LevelWarn
	if said == r.err.Error() {
		level = slog.LevelDebug
	}
	k.cfg.Log.Log(ctx, level, "mirror pod is not as it should be, it will be tried again", "pod", name.String(), "err", r.err)
	if hook := k.cfg.Hooks.Failed; hook != nil {
		hook(name, r.err)
	}
}

// result is how far looking after a name has come.
type result struct {
	last step
	// revision is that of the entry when last was decided.
	revision uint64
	// answered is true if the API server was asked and has answered.
	answered bool
	err      error
}

// learnLocked takes in how far it has come.
func (k *Keeper) learnLocked(name types.NamespacedName, e *entry, r result, now time.Time) {
	e.busy, e.said = false, ""
	if r.err != nil {
		e.said = r.err.Error()
	}
	if unreachable(r.err) {
		k.outage.failed(now)
		e.due = k.outage.until.Add(k.outage.wait) // another name asks next, should it be this one's fault
		return
	}
	if r.answered && k.outage.on() {
		k.outage = outage{}
		k.resumeLocked()
	}
	switch {
	case e.revision != r.revision: // it has changed meanwhile
		e.due = now
	case r.err != nil:
		e.due = now.Add(min(firstRetry<<min(e.failures, 10), maxRetry))
		e.failures++
	case r.last == waiting:
		e.due = now.Add(endingPoll)
	case e.unseen:
		e.due, e.failures = e.lookAt, 0
	case e.empty():
		k.forgetLocked(name)
	default:
		e.failures = 0
		delete(k.dirty, name)
	}
}

// resumeLocked makes due what waited for the API server to come back.
func (k *Keeper) resumeLocked() {
	for name := range k.dirty {
		if e := k.entries[name]; e.failures == 0 {
			e.due = time.Time{}
		}
	}
}

// bring makes the API server have what it should have of one name.
func (k *Keeper) bring(ctx context.Context, name types.NamespacedName, node func() (types.UID, error)) (r result) {
	k.with(name, (*entry).doubt)
	for range maxSteps {
		uid, err := k.owner(name, node)
		p := k.plan(name, uid)
		r.last, r.revision = p.step, p.revision
		switch {
		case err != nil:
			r.err = err
		case p.want != nil && uid == "":
			continue // it is wanted since a moment
		case p.step == look:
			r.err = k.verify(ctx, name)
		case p.step == create:
			r.err = k.create(ctx, name, Project(p.want, Owner{Name: k.cfg.Name, UID: uid}))
		case p.step == remove:
			r.err = k.remove(ctx, name, p.have)
		case p.step == taken:
			r.err = fmt.Errorf("pod %s is no mirror: %w", p.have.UID, errTaken)
		default:
			return r
		}
		if r.err != nil {
			return r
		}
		r.answered = true
	}
	r.err = errors.New("the API server has another pod of that name each time")
	return r
}

// owner returns the UID of the Node if there is a static pod of that name.
func (k *Keeper) owner(name types.NamespacedName, node func() (types.UID, error)) (types.UID, error) {
	wanted := false
	k.with(name, func(e *entry) { wanted = e.want != nil })
	if !wanted {
		return "", nil
	}
	return node()
}

// plan is what to do about a name, and what that was decided on.
type plan struct {
	step       step
	want, have *corev1.Pod
	revision   uint64
}

func (k *Keeper) plan(name types.NamespacedName, node types.UID) (p plan) {
	ending := k.cfg.Ending(name.Namespace, name.Name)
	k.with(name, func(e *entry) {
		w := world{now: time.Now(), node: node, ending: ending, whole: k.whole}
		p = plan{e.next(w), e.want, e.have, e.revision}
	})
	return p
}

// with calls do with the entry of a name that is busy.
func (k *Keeper) with(name types.NamespacedName, do func(*entry)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do(k.entries[name])
}
