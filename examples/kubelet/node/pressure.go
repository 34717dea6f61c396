package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// pressure has pods evicted when the machine runs short; nil where another agent looks
// after the machine, or before the runtime has answered.
type pressure struct {
	*eviction.Manager
	agent      *agent
	meter      *meter
	thresholds []eviction.Threshold
	// ignoresLimits says that the limits of local storage are nobody's business.
	ignoresLimits bool
	// wake has the Manager measure at once; listens says that the kernel may be asked to.
	wake    chan struct{}
	listens bool
}

// newPressure puts the parts together.
func newPressure(ctx context.Context, n *Node, a *agent) (*pressure, error) {
	if n.guest || n.cfg.Cgroups != nil && n.cfg.Gauge == nil {
		return nil, nil //nolint:nilnil // nobody is evicted from here
	}
	p := &pressure{
		agent: a, wake: make(chan struct{}, 1), listens: n.cfg.Kubelet.KernelMemcgNotification,
		ignoresLimits: ignoresStorage(n.cfg.Kubelet),
	}
	g := n.cfg.Gauge
	if g == nil {
		var err error
		if g, err = newGauge(ctx, n, a); err != nil {
			return nil, err
		}
	}
	k := n.cfg.Kubelet
	host := &podspec.Node{Logs: k.PodLogsDir}
	p.meter = &meter{gauge: g, agent: a, logs: host.LogDir}
	disks, err := g.Disks()
	if err != nil {
		n.log.Warn("which data share a file system is not known; all are taken to", "err", err)
	}
	p.thresholds, err = eviction.Thresholds(eviction.Settings{
		Hard: k.EvictionHard, Soft: k.EvictionSoft, SoftGracePeriod: k.EvictionSoftGracePeriod,
		MinimumReclaim: k.EvictionMinimumReclaim, EnforcePods: enforces(k, enforcePods), Disks: disks,
	})
	if err != nil {
		return nil, err
	}
	p.Manager, err = eviction.New(p.meter, p, p, eviction.Config{
		Thresholds:   p.thresholds,
		Disks:        disks,
		Transition:   k.EvictionPressureTransitionPeriod.Duration,
		MaxPodGrace:  time.Duration(k.EvictionMaxPodGracePeriod) * time.Second,
		IgnoreLimits: p.ignoresLimits,
		Wake:         p.wake,
		OnThreshold: func(t eviction.Threshold) {
			a.events.Record(events.OfNode(n.cfg.Name), corev1.EventTypeWarning, "EvictionThresholdMet", fmt.Sprintf("Attempting to reclaim %s", t.Signal.Resource()))
		},
		Log: n.log,
	})
	return p, err
}

// abilities are what is done for limits of local storage. Where the configuration has none
// of them heeded, pods may have them.
func (p *pressure) abilities() podspec.Ability {
	if p == nil {
		return 0
	}
	return podspec.LocalStorage
}

// pressures returns what watches the machine; nil while nobody does.
func (n *Node) pressures() *pressure {
	if a := n.agent.get(); a != nil {
		return a.pressure
	}
	return nil
}

// latePressures are those of a node whose runtime may not have answered yet.
type latePressures struct{ node *Node }

// MemoryPressure is part of [nodestatus.Pressures].
func (l latePressures) MemoryPressure() bool {
	return l.node.pressures().holds(corev1.NodeMemoryPressure)
}

// DiskPressure is part of [nodestatus.Pressures].
func (l latePressures) DiskPressure() bool {
	return l.node.pressures().holds(corev1.NodeDiskPressure)
}

// PIDPressure is part of [nodestatus.Pressures].
func (l latePressures) PIDPressure() bool {
	return l.node.pressures().holds(corev1.NodePIDPressure)
}

// holds reports whether a pressure is known to hold.
func (p *pressure) holds(c corev1.NodeConditionType) bool {
	return p != nil && slices.Contains(p.Pressures(), c)
}

// show gives a Node the pressures that hold now: what the API server has of them may be
// some seconds old.
func (p *pressure) show(node *corev1.Node) {
	if p == nil {
		return
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		status := corev1.ConditionFalse
		if p.holds(c) {
			status = corev1.ConditionTrue
		}
		i := slices.IndexFunc(node.Status.Conditions, func(old corev1.NodeCondition) bool { return old.Type == c })
		if i < 0 {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: c})
			i = len(node.Status.Conditions) - 1
		}
		node.Status.Conditions[i].Status = status
	}
}

// run watches until ctx ends.
func (p *pressure) run(ctx context.Context) error {
	if p == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	if p.listens && p.agent.cgroups != nil {
		g.Go(func() error { p.listen(ctx, p.agent.cgroups.AwaitMachineMemory, eviction.MemoryAvailable); return nil })
		g.Go(func() error {
			p.listen(ctx, p.agent.cgroups.AwaitPodsMemory, eviction.AllocatableMemoryAvailable)
			return nil
		})
	}
	return g.Wait()
}

// listenFor is how long the kernel is asked about one mark: it moves with the pages of
// files that are not used.
const listenFor = 10 * time.Second

// listen has the Manager measure when memory passes the threshold of a signal.
func (p *pressure) listen(ctx context.Context, await func(context.Context, int64) error, signal eviction.Signal) {
	for ctx.Err() == nil {
		mark, ok := p.mark(signal)
		short, cancel := context.WithTimeout(ctx, listenFor)
		err := errUnknownMark
		if ok {
			err = await(short, mark)
		}
		switch {
		case err == nil:
			select {
			case p.wake <- struct{}{}:
			default: // it is about to measure
			}
		case errors.Is(err, errors.ErrUnsupported):
			cancel()
			return
		case !errors.Is(err, context.DeadlineExceeded):
			p.agent.log.Debug("the kernel was not asked to tell when memory runs short", "signal", signal, "err", err)
			<-short.Done()
		}
		cancel()
	}
}

var errUnknownMark = errors.New("nothing was measured, or there is no threshold")

// mark is the working set at which the first threshold of a signal is crossed.
func (p *pressure) mark(signal eviction.Signal) (mark int64, ok bool) {
	left, _ := p.meter.gauge.Observe() // what fails is logged by the Manager's own round
	o, measured := left[signal]
	for _, t := range p.thresholds {
		if measured && t.Signal == signal {
			want := t.Value.Of(o.Capacity)
			return o.Capacity.Value() - want.Value(), true
		}
	}
	return 0, false
}

// fit has the machine measured by what it has now, if the gauge can.
func (p *pressure) fit(r *resources) {
	if p == nil {
		return
	}
	if g, ok := p.meter.gauge.(interface{ SetCapacity(memory int64) }); ok {
		memory := r.Capacity[corev1.ResourceMemory]
		g.SetCapacity(memory.Value())
	}
}

// Active is part of [eviction.Pods].
func (p *pressure) Active() []*corev1.Pod { return p.agent.admissions.active() }

// Evict is part of [eviction.Pods].
func (p *pressure) Evict(_ context.Context, e eviction.Eviction) error {
	t := podworker.Termination{Grace: e.Grace, Phase: corev1.PodFailed, Reason: eviction.Reason, Message: e.Message, Evicted: true}
	if e.Disrupted {
		t.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
			Message: e.Message, ObservedGeneration: e.Pod.Generation, LastTransitionTime: metav1.Now(),
		}}
	}
	p.agent.events.Annotated(e.Annotations).Record(events.OfPod(e.Pod, ""), corev1.EventTypeWarning, eviction.Reason, e.Message)
	p.agent.metrics.tally.evictions.WithLabelValues(e.Cause).Inc()
	p.agent.pool.Terminate(e.Pod.UID, t)
	return nil
}

// Gone is part of [eviction.Pods].
func (p *pressure) Gone(pod *corev1.Pod) bool {
	s, known := p.agent.pool.State(pod.UID)
	return !known || s.Done()
}

// Free is part of [eviction.Storage].
func (p *pressure) Free(ctx context.Context, what eviction.Freeable) error {
	switch what {
	case eviction.UnusedImages:
		_, err := p.agent.pictures.collector.RemoveUnused(ctx)
		return err
	case eviction.DeadContainers:
		return p.agent.syncer.RemoveDead(ctx, p.agent.over)
	}
	return fmt.Errorf("free %s: %w", what, errors.ErrUnsupported)
}
