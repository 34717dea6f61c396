package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/runtime"
)

const (
	// relistPeriod is the time between two looks at the runtime, as in the kubelet.
	relistPeriod = time.Second
	// statusEvery is the number of looks between two questions for the runtime's own
	// status and two searches for pods that hang, sweepEvery that between two searches
	// for what a crash has left.
	statusEvery = 5
	sweepEvery  = 60
	// hungAfter is how long one call for a pod may take before it is logged. Images
	// may take long to pull.
	hungAfter = 5 * time.Minute
)

// firstLook waits until the runtime has shown what there is. It is false when ctx
// ended before.
func (a *agent) firstLook(ctx context.Context) bool {
	tick := time.NewTicker(relistPeriod)
	defer tick.Stop()
	for a.snapshot.Load() == nil {
		a.look(ctx)
		if a.snapshot.Load() != nil {
			break
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// relist looks at the runtime each second until ctx ends.
func (a *agent) relist(ctx context.Context) error {
	tick := time.NewTicker(relistPeriod)
	defer tick.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		a.look(ctx)
		a.clearLate(ctx)
		if round%statusEvery == 1 {
			a.askStatus(ctx)
			a.tellPodCIDRs(ctx)
			a.complain(time.Now())
		}
		if round%sweepEvery == 1 {
			a.sweep(ctx)
		}
		if a.admissions.differ() || round%sweepEvery == 1 {
			a.weigh(ctx)
		}
	}
}

// look takes a snapshot and wakes the pods that changed since the last one.
func (a *agent) look(ctx context.Context) {
	began := time.Now()
	now, err := a.runtime.Snapshot(ctx)
	if ctx.Err() != nil {
		return
	}
	a.metrics.relisted(began)
	changed := a.told.seen.beat(time.Now(), err)
	if err != nil {
		if changed {
			a.log.Warn("container runtime does not answer; its pods are left as they are", "err", err)
		}
		return
	}
	old := a.snapshot.Swap(now)
	changes := runtime.Diff(old, now)
	for _, c := range changes {
		a.pool.Wake(c.UID)
	}
	if changed && old != nil {
		a.log.Info("container runtime answers again")
		for uid := range a.catalog.uids() {
			a.pool.Wake(uid)
		}
	}
	a.probing.watch(now)
	a.collect(now)
	if a.catalog.ready() {
		if v := a.catalog.version(); len(changes) > 0 || v != a.told.discovered {
			a.told.discovered = v
			a.discover(now)
		}
	}
}

// discover begins to probe what runs and whose pods' workers have not got to say so.
func (a *agent) discover(snap *runtime.Snapshot) {
	for _, k := range a.catalog.known() {
		if !a.ending(k.pod.UID) {
			a.probing.discover(k.pod, k.status, snap.Pods[k.pod.UID])
		}
	}
}

// collect tells the pods to stop that this agent made and that nobody wants.
func (a *agent) collect(snap *runtime.Snapshot) {
	for _, o := range findOrphans(snap, a.ownership(), a.catalog.unwanted) {
		if _, known := a.pool.State(o.pod.UID); known || a.leftovers.resting(o.pod.UID, time.Now()) {
			continue
		}
		a.log.Info("no source names the pod any more; it is stopped", "pod", fullName(o.pod), "uid", string(o.pod.UID))
		a.metrics.orphans.Inc()
		a.pool.TerminateOrphan(o.pod, podworker.Termination{Grace: o.grace})
	}
}

// sweep finishes what a crash has interrupted: directories of pods that are in no
// manifest and of which the runtime knows nothing any more. Directories that were
// there before this agent are left alone.
func (a *agent) sweep(ctx context.Context) {
	if !a.catalog.ready() {
		return
	}
	a.sweepStatuses()
	a.sweepCgroups(ctx)
	a.retainDevices()
	a.retainAlignment()
	a.thin(ctx)
	left, err := a.syncer.Remains(ctx)
	if err != nil {
		a.log.Warn("leftovers of pods were not searched for", "err", err)
		return
	}
	snap, own := a.snapshot.Load(), a.ownership()
	found := 0
	defer func() {
		a.metrics.storage.cleaned.Set(float64(found))
		a.metrics.storage.failed.Set(float64(a.leftovers.count()))
	}()
	for _, uid := range left {
		if _, known := a.pool.State(uid); known || a.catalog.wants(uid) || snap.Pods[uid] != nil {
			continue
		}
		if a.memory.foreign(uid) && !own.takeOver {
			continue
		}
		pod := &corev1.Pod{}
		pod.UID = uid
		found++
		a.pool.TerminateOrphan(pod, podworker.Termination{Grace: podworker.MinGrace})
	}
}

// sweepStatuses forgets what was told of pods that went while no agent ran.
func (a *agent) sweepStatuses() {
	for _, uid := range a.memory.statuses.uids() {
		if _, known := a.pool.State(uid); known || a.catalog.wants(uid) {
			continue
		}
		if err := a.memory.statuses.drop(uid); err != nil {
			a.log.Warn("status of a pod that is gone is kept", "uid", string(uid), "err", err)
		}
	}
}

// askStatus logs when the runtime or its network becomes ready or ceases to be. A
// network that is not ready does not make the node unhealthy: pods on the node's own
// network run without.
func (a *agent) askStatus(ctx context.Context) {
	st, err := a.runtime.Status(ctx, false)
	if err != nil {
		return // look has said so
	}
	a.said.Store(st)
	for _, c := range st.GetStatus().GetConditions() {
		problem := problemOf(c)
		if c.GetType() == runtimeapi.RuntimeReady {
			a.told.ready.beat(time.Now(), problem)
		}
		if a.told.conditions[c.GetType()] == c.GetStatus() {
			continue
		}
		a.told.conditions[c.GetType()] = c.GetStatus()
		if problem != nil {
			a.log.Warn("container runtime is not ready", "err", problem)
		} else {
			a.log.Info("container runtime is ready", "condition", c.GetType())
		}
	}
}

// problemOf returns why a condition of the runtime does not hold, nil if it does.
func problemOf(c *runtimeapi.RuntimeCondition) error {
	if c.GetStatus() {
		return nil
	}
	return fmt.Errorf("%s is false: %s: %s", c.GetType(), c.GetReason(), c.GetMessage())
}

// complain logs each call for a pod that is out for too long, once.
func (a *agent) complain(now time.Time) {
	hung := map[types.UID]time.Time{}
	for uid, s := range a.pool.All() {
		if s.BusySince.IsZero() || now.Sub(s.BusySince) < hungAfter+s.Termination.Grace {
			continue
		}
		hung[uid] = s.BusySince
		if a.told.hung[uid] != s.BusySince {
			a.log.Warn("pod hangs", "uid", string(uid), "phase", s.Phase.String(), "since", s.BusySince)
		}
	}
	a.told.hung = hung
}
