package podsync

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// record is what is remembered of one pod between calls. It belongs to the one
// call that is out for the pod, so all but progress needs no lock. Losing it costs no
// restart.
type record struct {
	// status is the last one published.
	status *corev1.PodStatus
	// checked is the pod last checked for fields that are not honoured.
	checked *corev1.Pod
	refusal error
	// pulls has the back-off of failed pulls, by image.
	pulls map[string]pull
	// turn is the place of the pod among those that wait to be started.
	turn uint64
	// badSandbox is when a sandbox was made that cannot be used; zero after a good one.
	badSandbox time.Time
	// given is what the containers of the pod have of the node.
	given *given
	// volumes are those of the pod that are ready.
	volumes volumes
	// looked is what a Sync may use again.
	looked looked
	hand
	finale
	progress
}

// hand is the part of a record that tells of the plan in hand.
type hand struct {
	// restarting is true while every container is removed to start anew.
	restarting bool
	// busy is true while something is done on which the phase of the pod depends.
	busy bool
	// again has the containers that are being stopped so that they start again, by name.
	again map[string]bool
}

// finale is the part of a record that tells of the end of the pod.
type finale struct {
	// stopping is when the first attempt to stop the pod that has not succeeded yet
	// began.
	stopping time.Time
	// end is how the pod was told to end, fate how it will once it is stopped.
	end, fate podstatus.End
	// over is true once the pod was cleaned up.
	over bool
}

// progress is the part of a record that changes while a call works in the background
// and its status is published.
type progress struct {
	// mu guards the fields below.
	mu sync.Mutex
	// waiting has why containers could not be started, by name.
	waiting map[string]podstatus.Waiting
	// failedStarts has created containers that would not start, by id.
	failedStarts map[string]bool
	// hooked has the containers whose postStart hook is running, by id.
	hooked map[string]bool
	// hooks has the preStop hooks that run and that no call waits for, by container id.
	hooks map[string]*lastRites
	// ends has channels that are closed when a container is seen to have ended, by id.
	ends map[string]chan struct{}
	// steps has the crash back-off of containers of which no record is left, by name;
	// nil: it was not read yet.
	steps map[string]time.Duration
	// told has, by kind of event, whom it was sent about and must not be again.
	told map[string]map[string]bool
}

// record returns the record of a pod, a new one at first.
func (s *Syncer) record(pod *corev1.Pod) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.pods[pod.UID]
	if !ok {
		r = &record{pulls: map[string]pull{}}
		r.waiting = map[string]podstatus.Waiting{}
		r.failedStarts = map[string]bool{}
		r.hooked = map[string]bool{}
		r.hooks, r.ends = map[string]*lastRites{}, map[string]chan struct{}{}
		r.told = map[string]map[string]bool{}
		if pod.Status.Phase != "" {
			r.status = pod.Status.DeepCopy()
		}
		s.pods[pod.UID] = r
	}
	return r
}

// drop forgets the record of a pod.
func (s *Syncer) drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// once reports whether an event of a kind is the first about its subject.
func (p *progress) once(kind, subject string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[kind][subject] {
		return false
	}
	if p.told[kind] == nil {
		p.told[kind] = map[string]bool{}
	}
	p.told[kind][subject] = true
	return true
}

// all returns whom something of a kind was told about or done to.
func (p *progress) all(kind string) map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.told[kind])
}

// anew has what was told of a kind be told again.
func (p *progress) anew(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.told, kind)
}

// Kinds of what is done or told once: about a container by id, about a field, or about
// what the network lacks.
const (
	toldKilling  = "killing"
	toldBackoff  = "back-off"
	toldField    = "field"
	toldNetwork  = "network"
	toldDeadline = "deadline"
	toldUnsure   = "unsure"
	ranPreStop   = "preStop"
	promised     = "promised"
)

// wait sets why a container does not run.
func (p *progress) wait(name string, w podstatus.Waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[name] = w
}

// runs takes it back.
func (p *progress) runs(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, name)
}

// waits returns why containers do not run, for names that match.
func (p *progress) waits(keep func(name string) bool) map[string]podstatus.Waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.waiting, func(name string, _ podstatus.Waiting) bool { return !keep(name) })
	return maps.Clone(p.waiting)
}

func always(string) bool { return true }
func never(string) bool  { return false }

// failStart remembers a created container that would not start.
func (p *progress) failStart(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failedStarts[id] = true
}

// hook says that the postStart hook of a container runs, or does no more.
func (p *progress) hook(id string, runs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if runs {
		p.hooked[id] = true
	} else {
		delete(p.hooked, id)
	}
}

// ending returns a channel that is closed when a container is seen to have ended.
func (p *progress) ending(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends[id] == nil {
		p.ends[id] = make(chan struct{})
	}
	return p.ends[id]
}

// sees tells those that wait for the end of a container.
func (p *progress) sees(seen *podstatus.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range seen.Containers {
		c := &seen.Containers[i]
		if end := p.ends[c.ID]; end != nil && c.State == podstatus.StateExited {
			close(end)
			delete(p.ends, c.ID)
		}
	}
}

// veil returns what the runtime shows without what is not to be seen yet: a container
// does not run before its postStart hook has returned.
func (p *progress) veil(seen *podstatus.Observed) *podstatus.Observed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.hooked) == 0 {
		return seen
	}
	out := *seen
	out.Containers = slices.Clone(seen.Containers)
	for i := range out.Containers {
		if c := &out.Containers[i]; p.hooked[c.ID] && c.State == podstatus.StateRunning {
			c.State = podstatus.StateCreated
		}
	}
	return &out
}

// prune forgets what was remembered of containers that are gone.
func (p *progress) prune(seen *podstatus.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := func(id string, _ bool) bool {
		return !slices.ContainsFunc(seen.Containers, func(c podstatus.Instance) bool { return c.ID == id })
	}
	maps.DeleteFunc(p.failedStarts, gone)
	maps.DeleteFunc(p.ends, func(id string, _ chan struct{}) bool { return gone(id, true) })
	for _, kind := range []string{toldKilling, toldBackoff, ranPreStop, promised} {
		maps.DeleteFunc(p.told[kind], gone)
	}
}

// callGrace is how long a call that must not be torn is given to end by itself
// after its pod has been told to stop.
const callGrace = 3 * time.Second

// startGrace is callGrace for StartContainer, whose process is there before it returns.
// containerd 1.6 takes a container whose start was cut off for one that has exited, and
// then refuses to remove it, because its task runs.
const startGrace = 20 * time.Second

// finishing returns a context for calls such as RunPodSandbox whose effect would be
// lost if they were cut off at once: it outlives ctx by grace.
func finishing(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() {
		stop()
		cancel()
	}
}
