package eviction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Meter measures a node and its pods.
type Meter interface {
	// Observe says what is left on the node. It is called each Config.Interval, and after
	// something was freed.
	Observe(ctx context.Context) (Observations, error)
	// Usages says what some pods use. It is called only when one of them may have to be
	// evicted, or has limits of its own. Pods that can't be measured are left out.
	Usages(ctx context.Context, pods []*corev1.Pod) (Usages, error)
}

// Pods are the pods of a node.
type Pods interface {
	// Active returns those that have something running, in any order.
	Active() []*corev1.Pod
	// Evict ends a pod. It returns once it is certain that the pod will end, without
	// waiting for that; the error says why the pod can't be ended.
	Evict(ctx context.Context, e Eviction) error
	// Gone reports whether nothing of a pod runs any more and its volumes are undone.
	Gone(pod *corev1.Pod) bool
}

// Storage is what a node keeps beside its pods.
type Storage interface {
	// Free removes containers that have ended or images that no container uses. It
	// returns when it is done.
	Free(ctx context.Context, what Freeable) error
}

// Freeable is what a node can do without.
type Freeable int

// What Free can be asked for.
const (
	DeadContainers Freeable = iota
	UnusedImages
)

func (f Freeable) String() string {
	switch f {
	case DeadContainers:
		return "dead containers"
	case UnusedImages:
		return "unused images"
	}
	return fmt.Sprintf("Freeable(%d)", int(f))
}

// Reason is the reason in the status of a pod that was evicted, and of the event.
const Reason = "Evicted"

// Eviction is the end of a pod. Its status becomes Failed with Reason and Message.
type Eviction struct {
	Pod *corev1.Pod
	// Cause is the signal, or the kind of limit: the label of the kubelet's counter
	// kubelet_evictions.
	Cause   string
	Message string
	// Grace is the time the pod gets to end, in whole seconds.
	Grace time.Duration
	// Disrupted says that the pod is not to blame: its condition DisruptionTarget becomes
	// True with the reason TerminationByKubelet and Message.
	Disrupted bool
	// Annotations are for the event.
	Annotations map[string]string
}

// Config is what a Manager may be told. The zero value watches local storage limits alone.
type Config struct {
	Thresholds []Threshold
	Disks      Disks
	// Transition is how long a pressure lasts after its thresholds were crossed the
	// last time: evictionPressureTransitionPeriod. 0 means 5 minutes.
	Transition time.Duration
	// Interval is the time between two measurements. 0 means 10 s.
	Interval time.Duration
	// MaxPodGrace bounds the time that pods get to end when a soft threshold was
	// crossed: evictionMaxPodGracePeriod. They always get a second at least.
	MaxPodGrace time.Duration
	// IgnoreLimits leaves the limits of local storage to others
	// (localStorageCapacityIsolation is off).
	IgnoreLimits bool
	// Wake makes the Manager measure at once, as when the kernel tells of memory that
	// runs short. nil: it measures each Interval.
	Wake <-chan struct{}
	// OnThreshold is told before something is done about a threshold that was crossed: the
	// node's event EvictionThresholdMet. It must not block. nil: nobody is told.
	OnThreshold func(Threshold)
	// Log tells what was measured and done; nil: nobody.
	Log *slog.Logger
}

// The kubelet's defaults and bounds.
const (
	defaultTransition = 5 * time.Minute
	defaultInterval   = 10 * time.Second
	hardGrace         = time.Second      // what a pod gets that is evicted for a hard threshold or a limit
	goneWithin        = 30 * time.Second // how long one round waits for the pods it evicted
	goneEvery         = time.Second
)

// Manager watches a node and evicts pods. Use New.
type Manager struct {
	meter   Meter
	pods    Pods
	storage Storage
	cfg     Config
	tracker *Tracker                  // of Run's goroutine, like the next
	ending  map[types.UID]*corev1.Pod // evicted and not gone yet

	mu        sync.Mutex
	pressures []corev1.NodeConditionType
}

// New returns a Manager that does nothing before Run. All of its parts are required.
func New(meter Meter, pods Pods, storage Storage, cfg Config) (*Manager, error) {
	if meter == nil || pods == nil || storage == nil {
		return nil, errors.New("eviction: a part is nil, want a Meter, the Pods and a Storage")
	}
	for name, d := range map[string]time.Duration{"transition": cfg.Transition, "interval": cfg.Interval, "max pod grace": cfg.MaxPodGrace} {
		if d < 0 {
			return nil, fmt.Errorf("eviction: %s is %v, must not be negative", name, d)
		}
	}
	if cfg.Transition == 0 {
		cfg.Transition = defaultTransition
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.OnThreshold == nil {
		cfg.OnThreshold = func(Threshold) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{meter: meter, pods: pods, storage: storage, cfg: cfg, tracker: NewTracker(cfg.Thresholds, cfg.Transition), ending: map[types.UID]*corev1.Pod{}}, nil
}

// Pressures returns the conditions of the node that hold, in order.
func (m *Manager) Pressures() []corev1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.pressures)
}

// MemoryPressure reports whether memory is short.
func (m *Manager) MemoryPressure() bool { return m.under(corev1.NodeMemoryPressure) }

// DiskPressure reports whether disk space or inodes are short.
func (m *Manager) DiskPressure() bool { return m.under(corev1.NodeDiskPressure) }

// PIDPressure reports whether process IDs are short.
func (m *Manager) PIDPressure() bool { return m.under(corev1.NodePIDPressure) }

func (m *Manager) under(c corev1.NodeConditionType) bool { return slices.Contains(m.Pressures(), c) }

// Run watches the node until ctx ends and then returns nil. What can't be measured or
// done is logged, and tried again after Config.Interval. Run may be called once.
func (m *Manager) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.cfg.Wake:
		case <-timer.C:
		}
		wait := m.cfg.Interval
		evicted, err := m.round(ctx)
		if err != nil && ctx.Err() == nil {
			m.cfg.Log.Error("eviction round failed", "err", err, "again", wait)
		}
		if len(evicted) > 0 {
			m.await(ctx, evicted)
			wait = 0
		}
		if ctx.Err() != nil {
			return nil
		}
		timer.Reset(wait)
	}
}

// round measures once and does what follows. At most one pod is evicted for a
// threshold, since what it frees shows only when it is gone.
func (m *Manager) round(ctx context.Context) ([]*corev1.Pod, error) {
	left, err := m.meter.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("measure the node: %w", err)
	}
	verdict := m.tracker.Observe(time.Now(), left)
	m.mu.Lock()
	m.pressures = verdict.Pressures
	m.mu.Unlock()
	pods := m.stillUp()
	// What keeps limits from being enforced must not keep the node from being saved.
	evicted, failed := m.overLimits(ctx, pods)
	if len(evicted) > 0 || len(verdict.Crossed) == 0 {
		return evicted, failed
	}
	evicted, err = m.act(ctx, verdict.Crossed[0], left, pods)
	return evicted, errors.Join(failed, err)
}

// act does something about a threshold that was crossed.
func (m *Manager) act(ctx context.Context, t Threshold, left Observations, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	available := left[t.Signal].Available
	m.cfg.Log.Warn("eviction threshold crossed", "signal", t.Signal, "threshold", t.Value, "available", &available)
	m.cfg.OnThreshold(t)
	freed, err := m.free(ctx, t.Signal)
	if freed || err != nil {
		return nil, err
	}
	return m.evictOne(ctx, t, left[t.Signal], pods)
}

// stillUp returns the pods that nobody has evicted yet: one that hangs must not keep
// others from being evicted after it.
func (m *Manager) stillUp() []*corev1.Pod {
	maps.DeleteFunc(m.ending, func(_ types.UID, pod *corev1.Pod) bool { return m.pods.Gone(pod) })
	return slices.DeleteFunc(slices.Clone(m.pods.Active()), func(pod *corev1.Pod) bool {
		_, ends := m.ending[pod.UID]
		return ends
	})
}

// overLimits evicts all pods that take more of the disk than they may.
func (m *Manager) overLimits(ctx context.Context, pods []*corev1.Pod) (evicted []*corev1.Pod, failed error) {
	limited := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return IsCritical(pod) || !Limited(pod) })
	if m.cfg.IgnoreLimits || len(limited) == 0 {
		return nil, nil
	}
	usages, err := m.meter.Usages(ctx, limited)
	if err != nil {
		return nil, fmt.Errorf("measure pods with limits: %w", err)
	}
	for _, pod := range limited {
		usage, measured := usages.of(pod)
		if !measured {
			continue
		}
		limit, message := OverLimit(m.cfg.Disks, pod, usage)
		if limit == "" {
			continue
		}
		if err := m.evict(ctx, Eviction{Pod: pod, Cause: limit, Message: message, Grace: hardGrace}); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		evicted = append(evicted, pod)
	}
	if len(evicted) > 0 && failed != nil {
		m.cfg.Log.Error("not all pods over their limits could be evicted", "err", failed)
		failed = nil
	}
	return evicted, failed
}

// free removes what belongs to no running pod, and reports whether that is enough.
func (m *Manager) free(ctx context.Context, s Signal) (enough bool, err error) {
	what := m.cfg.Disks.frees(s)
	if len(what) == 0 {
		return false, nil
	}
	for _, f := range what {
		if err := m.storage.Free(ctx, f); err != nil {
			m.cfg.Log.Error("could not free all that is not used", "what", f, "err", err)
		}
	}
	left, err := m.meter.Observe(ctx)
	if err != nil {
		return false, fmt.Errorf("measure the node after freeing what is not used: %w", err)
	}
	return m.tracker.Resolved(left), nil
}

// evictOne evicts the first pod that can be. Pods are evicted unmeasured if they must,
// but not because ctx ended while they were measured.
func (m *Manager) evictOne(ctx context.Context, t Threshold, left Observation, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	usages, failed := m.meter.Usages(ctx, pods)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, pod := range Rank(t.Signal, m.cfg.Disks, pods, usages) {
		if IsCritical(pod) {
			continue
		}
		e := Eviction{Pod: pod, Cause: string(t.Signal), Grace: m.grace(t, pod), Disrupted: true}
		var used *Usage
		if usage, ok := usages.of(pod); ok {
			used = &usage
		}
		e.Message, e.Annotations = Message(t, left, pod, used)
		if err := m.evict(ctx, e); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if failed != nil {
			m.cfg.Log.Error("not the first choice was evicted", "err", failed)
		}
		return []*corev1.Pod{pod}, nil
	}
	if failed == nil {
		failed = errors.New("there is no pod that may be evicted")
	}
	return nil, fmt.Errorf("%s is below %s: %w", t.Signal, t.Value, failed)
}

func (m *Manager) evict(ctx context.Context, e Eviction) error {
	if err := m.pods.Evict(ctx, e); err != nil {
		return fmt.Errorf("evict pod %s/%s: %w", e.Pod.Namespace, e.Pod.Name, err)
	}
	m.ending[e.Pod.UID] = e.Pod
	m.cfg.Log.Warn("pod evicted", "pod", e.Pod.Namespace+"/"+e.Pod.Name, "uid", e.Pod.UID, "cause", e.Cause, "message", e.Message, "grace", e.Grace)
	return nil
}

// grace is how long a pod gets to end.
func (m *Manager) grace(t Threshold, pod *corev1.Pod) time.Duration {
	if t.Hard() {
		return hardGrace
	}
	grace := m.cfg.MaxPodGrace
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = min(grace, time.Duration(*own)*time.Second)
	}
	return max(grace, hardGrace)
}

// await waits until pods that were evicted are gone, for half a minute at most.
func (m *Manager) await(ctx context.Context, pods []*corev1.Pod) {
	late := time.NewTimer(goneWithin)
	defer late.Stop()
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !m.pods.Gone(pod) }) {
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			m.cfg.Log.Warn("evicted pods are not gone yet", "waited", goneWithin)
			return
		case <-tick.C:
		}
	}
}
