package node

import (
	"context"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

const (
	// askRuntimeEvery is how often the runtime is asked for its status, as in the
	// kubelet; askRuntimeFirst how often before it is ready for the first time.
	askRuntimeEvery = 5 * time.Second
	askRuntimeFirst = 250 * time.Millisecond
	// askRuntimeFor is how long it may take to answer.
	askRuntimeFor = 10 * time.Second
)

// runtimeHealth is what the container runtime said of itself last.
type runtimeHealth struct {
	mu sync.Mutex // guards the fields below
	// ready is when it last said that it is ready.
	ready      time.Time
	conditions []nodestatus.RuntimeCondition
	status     *runtimeapi.StatusResponse
	version    *runtimeapi.VersionResponse
}

// note takes an answer. Like in the kubelet, an answer that the runtime is not ready
// does not count as life.
func (r *runtimeHealth) note(st *runtimeapi.StatusResponse, version *runtimeapi.VersionResponse, now time.Time) {
	var conditions []nodestatus.RuntimeCondition
	ready := false
	for _, c := range st.GetStatus().GetConditions() {
		ready = ready || c.GetType() == runtimeapi.RuntimeReady && c.GetStatus()
		conditions = append(conditions, nodestatus.RuntimeCondition{
			Type: c.GetType(), Status: c.GetStatus(), Reason: c.GetReason(), Message: c.GetMessage(),
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conditions, r.status = conditions, st
	if version != nil {
		r.version = version
	}
	if ready {
		r.ready = now
	}
}

// last returns the last answers, nil before the first.
func (r *runtimeHealth) last() (*runtimeapi.StatusResponse, *runtimeapi.VersionResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status, r.version
}

// fill writes what is known of the runtime.
func (r *runtimeHealth) fill(h *nodestatus.Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.RuntimeReady, h.Conditions = r.ready, slices.Clone(r.conditions)
}

// watchRuntime asks the runtime for its status until ctx ends, and has the node's
// status computed when the node becomes ready or ceases to be. Other reasons for the same
// wait for the next period: the text of some changes all the time.
func (h *heartbeat) watchRuntime(ctx context.Context) error {
	wasReady := true
	for ctx.Err() == nil {
		h.askRuntime(ctx)
		ready := len(h.notReady()) == 0
		if ready != wasReady {
			h.wake()
		}
		wasReady = ready
		period := askRuntimeEvery
		if h.runtime.neverReady() {
			period = askRuntimeFirst
		}
		timer := time.NewTimer(period)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

func (r *runtimeHealth) neverReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready.IsZero()
}

// askRuntime asks the runtime once. That it does not answer is seen by its silence.
func (h *heartbeat) askRuntime(ctx context.Context) {
	a := h.node.agent.get()
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askRuntimeFor)
	defer cancel()
	st, err := a.runtime.Status(ctx, false)
	if err != nil {
		return
	}
	version, err := a.runtime.Version(ctx, "")
	if err != nil {
		version = nil // that of before is still true
	}
	h.runtime.note(st, version, time.Now())
}

// notReady says why the node is not ready. A loop that stands still is a reason, so
// that a node whose pods nobody looks after does not look alive.
func (h *heartbeat) notReady() []string {
	health := nodestatus.Health{Listed: h.node.runtimeSeen.time(), GoingDown: h.node.goingDown()}
	h.runtime.fill(&health)
	if a := h.node.agent.get(); a != nil && a.pool.Lag() > stuckAfter {
		health.Faults = append(health.Faults, "pod workers are not healthy: they stand still for more than "+stuckAfter.String())
	}
	if fault := h.node.storageFault(); fault != "" {
		health.Faults = append(health.Faults, fault)
	}
	return health.NotReady(time.Now())
}

// time returns when the last beat without an error was, zero before the first.
func (p *pulse) time() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
