package nodestatus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// attempts is how often a report is tried before the next period, as in the
	// kubelet.
	attempts = 5
	// fastPeriod is how often NotReady is asked before the node is ready for the first
	// time, and fastFor how long, as in the kubelet.
	fastPeriod = 100 * time.Millisecond
	fastFor    = 2 * time.Minute
	// settleFor is how long after the start a Node that is said to be ready is not told
	// otherwise: as long as the kubelet takes to notice. The kubelet asks its runtime
	// once before the first report instead, so that a restart does not show.
	settleFor = 10 * time.Second
	// spread is by how much of itself a period is prolonged at most.
	spread = 0.04
	// firstWait and maxWait bound the waits after failures, as in the kubelet.
	firstWait = 100 * time.Millisecond
	maxWait   = 7 * time.Second
)

// Run registers the Node and reports its status until ctx ends; then it returns nil.
// Whatever the server answers, it goes on.
func (r *Reporter) Run(ctx context.Context) error {
	r.began = time.Now()
	for ctx.Err() == nil {
		r.report(ctx)
		r.wait(ctx)
	}
	return nil
}

// wait waits for the time of the next report.
func (r *Reporter) wait(ctx context.Context) {
	period := r.cfg.Period
	switch {
	case r.node == nil:
		period = min(period, maxWait) // not registered yet
	case r.sent.IsZero():
		period = min(period, settleFor) // nothing told yet
	}
	next := time.NewTimer(period + time.Duration(rand.Float64()*spread*float64(period)))
	defer next.Stop()
	var fast <-chan time.Time
	if !r.ready && r.unready && time.Since(r.began) < fastFor {
		ticker := time.NewTicker(fastPeriod)
		defer ticker.Stop()
		fast = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			return
		case <-r.wake:
			return
		case <-fast:
			// Starting: the moment in which the node becomes ready is worth a report.
			if len(r.cfg.NotReady()) == 0 {
				return
			}
		}
	}
}

// report tries to bring the status to the server, a few times.
func (r *Reporter) report(ctx context.Context) {
	facts := r.collect(ctx)
	if ctx.Err() != nil {
		return
	}
	for attempt := 1; attempt <= attempts && ctx.Err() == nil; attempt++ {
		// What the node is like may have changed while the server did not answer.
		err := r.try(ctx, r.assess(facts), attempt)
		if err == nil {
			if attempt > 1 {
				r.cfg.Log.Info("status of the node is told again", "attempts", attempt)
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		if attempt == 1 || attempt == attempts {
			r.cfg.Log.Warn("status of the node could not be told", "attempt", attempt, "err", err)
		}
		if r.cfg.Hooks.Failed != nil {
			r.cfg.Hooks.Failed(attempt, err)
		}
		if attempt < attempts {
			pause(ctx, min(maxWait, firstWait<<attempt))
		}
	}
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// collect gathers the facts.
func (r *Reporter) collect(ctx context.Context) Facts {
	factsCtx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	facts, err := r.cfg.Facts(factsCtx)
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("some facts of the node could not be collected", "err", err)
	}
	return facts
}

// assess returns the facts with whether the node is ready, and what is short.
func (r *Reporter) assess(facts Facts) Facts {
	facts = facts.NotReady(r.cfg.NotReady()...).UnderPressure(r.cfg.Pressures)
	r.unready = len(facts.notReady) > 0
	return facts
}

// try makes one attempt.
func (r *Reporter) try(ctx context.Context, facts Facts, attempt int) error {
	old, err := r.current(ctx, facts, attempt)
	if err != nil {
		return err
	}
	if old == nil {
		return nil // just created, with its status
	}
	now := time.Now()
	if r.unsettled(old, facts, now) {
		r.accept(old, nil)
		return nil
	}
	fresh := old
	if r.cfg.Registration != nil && !r.adopted {
		fresh = r.cfg.Registration.Reconcile(r.cfg.Name, old)
	}
	fresh, events := Update(fresh, facts, now)
	changed := Changed(old, fresh)
	expired := r.sent.IsZero() || now.Sub(r.sent) >= r.due
	if !changed && !expired {
		r.accept(old, nil)
		return nil
	}
	got, err := r.send(ctx, old, fresh)
	if err != nil {
		return err
	}
	r.due = r.cfg.ReportPeriod
	if changed || r.sent.IsZero() {
		r.due += time.Duration((rand.Float64() - 0.5) * float64(r.cfg.ReportPeriod))
	}
	r.sent = now
	r.accept(got, events)
	return nil
}

// unsettled reports whether it is too early to tell that a Node is not ready any more:
// this process has just started on a machine that runs on.
func (r *Reporter) unsettled(old *corev1.Node, facts Facts, now time.Time) bool {
	if !r.unready || facts.GoingDown || !r.sent.IsZero() || now.Sub(r.began) >= settleFor {
		return false
	}
	before, boot := old.Status.NodeInfo.BootID, facts.Status.NodeInfo.BootID
	rebooted := before != "" && boot != "" && before != boot
	c := condition(old.Status.Conditions, corev1.NodeReady)
	return !rebooted && c != nil && c.Status == corev1.ConditionTrue
}

// current returns the Node as the server has it; nil after creating it.
func (r *Reporter) current(ctx context.Context, facts Facts, attempt int) (*corev1.Node, error) {
	opts := metav1.GetOptions{}
	if attempt == 1 && r.node != nil {
		// From the server's cache, which costs it little.
		opts.ResourceVersion = "0"
	}
	got, err := r.get(ctx, opts)
	if opts.ResourceVersion != "" && (apierrors.IsNotFound(err) || err == nil && got.UID == r.node.UID && older(got, r.node)) {
		// The cache may be that of another server, which has not heard of the Node yet, or
		// not of what was sent; or the store was put back to what it was before.
		got, err = r.get(ctx, metav1.GetOptions{})
	}
	switch {
	case err == nil:
		r.found(got)
		return got, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get node %s: %w", r.cfg.Name, err)
	}
	if r.node != nil {
		r.cfg.Log.Warn("the node has been deleted")
	}
	r.setNode(nil)
	r.adopted = false
	if r.cfg.Registration == nil {
		return nil, fmt.Errorf("get node %s, which is not registered from here: %w", r.cfg.Name, err)
	}
	return nil, r.register(ctx, facts)
}

// get asks for the Node once.
func (r *Reporter) get(ctx context.Context, opts metav1.GetOptions) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return r.client.Get(ctx, r.cfg.Name, opts)
}

// register creates the Node with its first status.
func (r *Reporter) register(ctx context.Context, facts Facts) error {
	if facts.GoingDown {
		return fmt.Errorf("node %s is not registered: it is going down", r.cfg.Name)
	}
	node, events := Update(r.cfg.Registration.Node(r.cfg.Name), facts, time.Now())
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	got, err := r.client.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register node %s: %w", r.cfg.Name, err)
	}
	r.cfg.Log.Info("node is registered", "uid", string(got.UID))
	r.adopted = true
	r.sent = time.Now()
	r.due = r.cfg.ReportPeriod + time.Duration((rand.Float64()-0.5)*float64(r.cfg.ReportPeriod))
	r.accept(got, events)
	if r.cfg.Hooks.Registered != nil {
		r.cfg.Hooks.Registered(got)
	}
	return nil
}

// found takes a Node that was there when it was looked for.
func (r *Reporter) found(n *corev1.Node) {
	first := r.node == nil
	if r.node != nil && r.node.UID != n.UID {
		r.cfg.Log.Warn("the node has been replaced by another one", "uid", string(n.UID))
		r.adopted = false
	}
	r.setNode(n)
	if first {
		r.unschedulable = n.Spec.Unschedulable
		r.cfg.Log.Info("node was registered before", "uid", string(n.UID))
		if r.cfg.Hooks.Registered != nil {
			r.cfg.Hooks.Registered(n)
		}
	}
}

// send sends what differs.
func (r *Reporter) send(ctx context.Context, old, fresh *corev1.Node) (*corev1.Node, error) {
	patch, err := Patch(old, fresh)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	got, err := r.client.Patch(ctx, r.cfg.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("patch the status of node %s: %w", r.cfg.Name, err)
	}
	r.adopted = true
	return got, nil
}

// accept takes a Node whose status is what it should be, and tells of it.
func (r *Reporter) accept(n *corev1.Node, events []Event) {
	if n.Spec.Unschedulable != r.unschedulable {
		r.unschedulable = n.Spec.Unschedulable
		reason := "NodeSchedulable"
		if n.Spec.Unschedulable {
			reason = "NodeNotSchedulable"
		}
		events = append(events, statusEvent(n.Name, reason))
	}
	r.setNode(n)
	r.ready = r.ready || !r.unready
	for _, e := range events {
		r.cfg.Log.Info("event", "reason", e.Reason, "message", e.Message)
		if r.cfg.Hooks.Event != nil {
			r.cfg.Hooks.Event(e)
		}
	}
	if r.cfg.Hooks.Reported != nil {
		r.cfg.Hooks.Reported(n)
	}
}

// older reports whether a is a version of an object before b. Versions of one object
// can be compared as numbers (Kubernetes 1.35, KEP-5504); those that are none are
// taken to be equal.
func older(a, b *corev1.Node) bool {
	va, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	vb, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && va < vb
}
