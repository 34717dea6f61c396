package node

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/staticpods"
)

// agent is a Node whose runtime has answered.
type agent struct {
	log     *slog.Logger
	catalog *catalog
	memory  *memory
	// seen beats when the runtime answers.
	seen    *pulse
	runtime Runtime
	source  Source
	syncer  *podsync.Syncer
	pool    *podworker.Pool
	// instance is this agent's id.
	instance string
	takeOver bool
	// snapshot is what the runtime last showed; not nil while the source runs.
	snapshot atomic.Pointer[runtime.Snapshot]
	told     told
}

// told is what relist has logged, so that it logs changes only.
type told struct {
	// ready beats when the runtime says it is ready.
	ready pulse
	// conditions are what the runtime last said of itself.
	conditions map[string]bool
	// hung are the pods whose call is out for too long, and since when.
	hung map[types.UID]time.Time
}

// lateAgent is an agent that exists once the runtime has answered.
type lateAgent struct{ p atomic.Pointer[agent] }

func (l *lateAgent) set(a *agent) { l.p.Store(a) }

// get returns nil before the runtime has answered.
func (l *lateAgent) get() *agent { return l.p.Load() }

// newAgent puts the parts together.
func newAgent(n *Node, rt Runtime, mem *memory, sync podsync.Config) (*agent, error) {
	a := &agent{
		log:      n.log,
		catalog:  n.catalog,
		memory:   mem,
		seen:     &n.runtimeSeen,
		runtime:  rt,
		source:   n.source,
		instance: sync.Node.Instance,
		takeOver: n.cfg.TakeOver,
		told:     told{conditions: map[string]bool{}},
	}
	sync.OnStatus = n.catalog.setStatus
	sync.OnEvent = a.tell
	var err error
	if a.syncer, err = podsync.New(rt, sync); err != nil {
		return nil, err
	}
	a.pool, err = podworker.New(cleaner{a.syncer, a}, podworker.Config{
		Log:    n.log,
		Resync: n.cfg.Kubelet.SyncFrequency.Duration,
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// run works until ctx ends. The source starts when the runtime has shown what there
// is, so that pods that run already are recognised.
func (a *agent) run(ctx context.Context) error {
	if !a.firstLook(ctx) {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.pool.Run(ctx) })
	g.Go(func() error { return a.relist(ctx) })
	g.Go(func() error {
		if err := a.source.Run(ctx, a.deliver); err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// deliver takes the whole set of pods. What this agent made and the set does not
// name is told to stop before anything new starts, so that a changed manifest never
// runs twice.
func (a *agent) deliver(set staticpods.Set) {
	first := !a.catalog.ready()
	changed := a.catalog.replace(set.Pods)
	if first {
		a.collect(a.snapshot.Load())
	}
	a.pool.Retain(a.retained(changed))
	for _, pod := range changed {
		a.remember(pod)
		a.pool.Update(pod)
	}
	if first || len(changed) > 0 {
		a.log.Info("pods were read", "pods", len(set.Pods), "changed", len(changed))
	}
}

// retained returns the UIDs of the set without the changed pods whose old version
// has finished: to the pool these vanish and are put back, and so start anew. This
// matters to manifests that state their UID; others get a new one with a change.
func (a *agent) retained(changed []*corev1.Pod) iter.Seq[types.UID] {
	finished := map[types.UID]bool{}
	for _, pod := range changed {
		if s, ok := a.pool.State(pod.UID); ok && s.Done() {
			finished[pod.UID] = true
		}
	}
	return func(yield func(types.UID) bool) {
		for uid := range a.catalog.uids() {
			if !finished[uid] && !yield(uid) {
				return
			}
		}
	}
}

// remember notes that a pod runs in sandboxes this agent did not make.
func (a *agent) remember(pod *corev1.Pod) {
	p := a.snapshot.Load().Pods[pod.UID]
	if p == nil || len(p.Sandboxes) == 0 || a.ownership().owns(p) {
		return
	}
	a.log.Info("pod runs already, made by another agent; it is taken over", "pod", fullName(pod), "uid", string(pod.UID))
	if err := a.memory.adopt(pod.UID, string(pod.UID)); err != nil {
		a.log.Error("taken-over pod could not be noted; it stays if its manifest goes while the kubelet is down",
			"pod", fullName(pod), "uid", string(pod.UID), "err", err)
	}
}

// adopt finds the UID under which a pod runs already, and notes it.
func (a *agent) adopt(pod *corev1.Pod) (types.UID, bool) {
	snap := a.snapshot.Load()
	if snap.Pods[pod.UID] != nil {
		return "", false // it runs under its own UID
	}
	uid, ok := findAdoptable(snap, pod)
	if !ok {
		return "", false
	}
	manifest := string(pod.UID)
	if before, ok := a.memory.adopted()[uid]; ok && before != manifest {
		return "", false // the manifest was edited since
	}
	if err := a.memory.adopt(uid, manifest); err != nil {
		a.log.Error("taken-over pod could not be noted; an edit of its manifest while the kubelet is down will go unnoticed",
			"pod", fullName(pod), "uid", string(uid), "err", err)
	}
	a.log.Info("pod runs already, made by another agent; its UID is kept", "pod", fullName(pod), "uid", string(uid))
	return uid, true
}

// ownership is what this agent may stop at this moment.
func (a *agent) ownership() ownership {
	return ownership{instance: a.instance, takeOver: a.takeOver, adopted: a.memory.adopted()}
}

// forget removes what is left of a pod, and what is remembered of it.
func (a *agent) forget(ctx context.Context, uid types.UID) error {
	if err := a.syncer.Forget(ctx, uid); err != nil {
		return err
	}
	return a.memory.drop(uid)
}

// tell logs an event of a pod.
func (a *agent) tell(pod *corev1.Pod, e podsync.Event) {
	log := a.log.With("pod", fullName(pod), "uid", string(pod.UID))
	if e.Container != "" {
		log = log.With("container", e.Container)
	}
	if e.Type == corev1.EventTypeWarning {
		log.Warn("event", "reason", e.Reason, "message", e.Message)
		return
	}
	log.Info("event", "reason", e.Reason, "message", e.Message)
}

// cleaner is the Syncer with a last step: of pods that nobody wants any more nothing
// is kept. It is done in the pod's worker, so that it never meets a new life of the
// same pod.
type cleaner struct {
	podworker.Syncer
	agent *agent
}

// SyncTerminated cleans up, and forgets the pod if it is not wanted.
func (c cleaner) SyncTerminated(ctx context.Context, pod *corev1.Pod) error {
	if err := c.Syncer.SyncTerminated(ctx, pod); err != nil {
		return err
	}
	if c.agent.catalog.wants(pod.UID) {
		return nil
	}
	return c.agent.forget(ctx, pod.UID)
}

// fullName returns "namespace/name".
func fullName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
