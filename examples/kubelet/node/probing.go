package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/grpc"
)

// Probes says how the probes of pods are run. The zero value runs them with package
// probes.
type Probes struct {
	// Off runs none: pods with probes are refused.
	Off bool
	// Results has the results of probes that somebody else runs; nil: the Node runs
	// them.
	Results podstatus.Prober
	// Build makes what is to be probed of a pod with its status. It may be called by
	// several goroutines at once. nil: probes.FromPod.
	Build func(*corev1.Pod, probes.PodConfig) ([]probes.Container, error)
	// Reach decides which addresses the hosts that probes and hooks name may lead to; those
	// of the pods themselves are always reached. nil: every one.
	Reach probes.Reach
}

// undecided has no results of probes.
type undecided struct{}

// ProbeResult implements podstatus.Prober.
func (undecided) ProbeResult(string, podstatus.Probe) podstatus.Result { return podstatus.Undecided }

// probing runs the probes of all containers. Probing of a container begins when its
// status, or the runtime, says that it runs, and ends when one of them says that it
// has ended. A nil probing runs nothing.
type probing struct {
	engine  *probes.Engine
	build   func(*corev1.Pod, probes.PodConfig) ([]probes.Container, error)
	clients probes.Clients
	log     *slog.Logger
	// began is when this process began to probe.
	began   time.Time
	metrics *probeMetrics
	// tell is told the events.
	tell func(probes.Ref, podsync.Event)

	mu sync.Mutex // guards the fields below
	// followed has the containers that are probed.
	followed map[string]*followed
	// said has the last event about each probe.
	said map[probeID]saying
	// faults has what was last wrong with the probes of a pod.
	faults map[types.UID]string
}

// followed is a container that is probed.
type followed struct {
	pod types.UID
	// missed is how many looks at the runtime in a row have not shown it running.
	missed int
}

// probeID names a probe of a container.
type probeID struct {
	container string
	kind      probes.Kind
}

// saying is an event and when it was told.
type saying struct {
	event probes.Event
	at    time.Time
}

// sayAgain is after what time an event about a probe is told again that is the same
// as the one before. What fails at each attempt would fill the log.
const sayAgain = 10 * time.Minute

// newProbing returns what runs the probes of an agent; nil if somebody else does, or
// nobody.
func newProbing(n *Node, a *agent) (*probing, error) {
	cfg := n.cfg.Probes
	if cfg.Off || cfg.Results != nil {
		return nil, nil
	}
	p := &probing{
		build:    cfg.Build,
		clients:  probes.Clients{Exec: probes.ExecIn(a.runtime), GRPC: grpc.New, Reach: cfg.Reach},
		log:      n.log,
		began:    time.Now(),
		metrics:  a.metrics.probes,
		tell:     a.tellProbe,
		followed: map[string]*followed{},
		said:     map[probeID]saying{},
		faults:   map[types.UID]string{},
	}
	if p.build == nil {
		p.build = probes.FromPod
	}
	var err error
	p.engine, err = probes.New(probes.Config{Log: n.log, Hooks: probes.Hooks{
		Changed:   func(c probes.Change) { a.pool.Wake(c.Ref.UID) },
		Attempted: p.attempted,
		Removed:   p.removed,
	}})
	return p, err
}

// run makes the attempts until ctx ends.
func (p *probing) run(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.engine.Run(ctx)
}

// ProbeResult implements podstatus.Prober. A container that is not known yet is
// undecided: what was told of it last holds.
func (p *probing) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	values, ok := p.engine.Values(id)
	if !ok {
		return podstatus.Undecided
	}
	value := probes.Unknown
	switch kind {
	case podstatus.Startup:
		value = values.Startup
	case podstatus.Liveness:
		value = values.Liveness
	case podstatus.Readiness:
		value = values.Readiness
	}
	switch value {
	case probes.Success, probes.Warning:
		return podstatus.Success
	case probes.Failure:
		return podstatus.Failure
	case probes.Unknown:
	}
	return podstatus.Undecided
}

// attempted tells of an attempt what the kubelet tells: failures, warnings and
// errors.
func (p *probing) attempted(a probes.Attempt) {
	if p.counts(a.Ref.ID) {
		p.metrics.attempted(a)
	}
	e, ok := a.Event()
	if !p.news(probeID{a.Ref.ID, a.Kind}, e, a.At) || !ok {
		return
	}
	p.tell(a.Ref, podsync.Event{Type: corev1.EventTypeWarning, Container: a.Ref.Name, Reason: e.Reason, Message: e.Message})
}

// counts reports whether an attempt is counted: one of a container that was forgotten is
// not, for nobody would forget it again.
func (p *probing) counts(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.followed[id]
	return known
}

// news reports whether an event differs from the one before it about the same probe.
// The zero event is one that there is nothing to tell about.
func (p *probing) news(id probeID, e probes.Event, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.said[id]
	if e == (probes.Event{}) {
		delete(p.said, id)
		return false
	}
	if ok && last.event == e && at.Sub(last.at) < sayAgain {
		return false
	}
	if _, known := p.followed[id.container]; known {
		p.said[id] = saying{e, at}
	}
	return true
}

// removed forgets a container.
func (p *probing) removed(ref probes.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked(ref.ID)
}

func (p *probing) forgetLocked(id string) {
	delete(p.followed, id)
	for _, kind := range []probes.Kind{probes.Startup, probes.Liveness, probes.Readiness} {
		delete(p.said, probeID{id, kind})
	}
}

// terminate says that a pod is going down: liveness and startup probes end, readiness
// probes go on.
func (p *probing) terminate(uid types.UID) {
	if p != nil {
		p.engine.TerminatePod(uid)
	}
}

// forget ends all probes of a pod.
func (p *probing) forget(uid types.UID) {
	if p != nil {
		_ = p.engine.Set(uid, nil) // nothing is added that could be wrong
		p.isNew(uid, nil)
	}
}
