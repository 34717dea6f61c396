package podsync

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// crew are those that start containers of one pod at the same time: one, and another
// each time all of them wait for images. So an image that takes long delays nothing but
// the container that needs it.
type crew struct {
	// idle is closed when all have left.
	idle chan struct{}

	// mu guards the fields below, and the back-off of pulls in the record of the pod.
	mu sync.Mutex
	// members is how many there are, fetching how many of them wait for images or for a
	// container to end.
	members, fetching int
	// claims counts the containers that somebody set out to start.
	claims int
	// out has the containers somebody is about to start. Those in taken were started by
	// another than the first, who leaves them alone. Those in failed are not tried again.
	out, taken, failed map[string]bool
	// stopped has the containers somebody stops, by id.
	stopped map[string]bool
	errs    []error
	bug     error
}

func newCrew() *crew {
	return &crew{
		idle: make(chan struct{}), members: 1,
		out: map[string]bool{}, taken: map[string]bool{}, failed: map[string]bool{}, stopped: map[string]bool{},
	}
}

// blocked reports whether everybody waits for images, and how many claims there were.
func (c *crew) blocked() (claims int, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims, c.members > 0 && c.fetching == c.members
}

// fetch says that a member begins, or ends, to wait for images.
func (c *crew) fetch(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetching += by
}

// claim lets the first start a container unless another one has.
func (c *crew) claim(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken[name] {
		return false
	}
	c.claims++
	c.out[name] = true
	return true
}

// join lets another one start those of the containers that nobody is about to start. It
// returns none if a container was claimed since claims were counted: they were chosen
// without knowing.
func (c *crew) join(starts []Start, claims int) []Start {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == 0 || c.claims != claims {
		return nil
	}
	free := slices.DeleteFunc(slices.Clone(starts), func(st Start) bool { return c.out[st.Name] || c.failed[st.Name] })
	if len(free) == 0 {
		return nil
	}
	for i := range free {
		c.claims++
		c.out[free[i].Name], c.taken[free[i].Name] = true, true
	}
	c.members++
	return free
}

// stop lets another one stop a container unless somebody does.
func (c *crew) stop(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == 0 || c.stopped[id] {
		return false
	}
	c.stopped[id] = true
	c.members++
	c.fetching++
	return true
}

// stops says how that went.
func (c *crew) stops(err error) {
	c.mu.Lock()
	c.fetching--
	if err != nil {
		c.errs = append(c.errs, err)
	}
	c.mu.Unlock()
	c.leave(nil)
}

// settle says how the start of a container went.
func (c *crew) settle(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.out, name)
	if err != nil {
		c.failed[name] = true
		c.errs = append(c.errs, err)
	}
}

// leave ends the work of a member. Whoever panicked says so.
func (c *crew) leave(v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v != nil {
		c.bug = fmt.Errorf("%v\n%s", v, debug.Stack())
	}
	c.members--
	if c.members == 0 {
		close(c.idle)
	}
}

// startTogether starts containers and, while their images are fetched, whatever else of
// the pod has to start meanwhile.
func (b *batch) startTogether(ctx context.Context, starts []Start) []error {
	b.crew = newCrew()
	work := func() {
		func() {
			defer func() { b.crew.leave(recover()) }()
			b.startAll(ctx, starts)
		}()
		<-b.crew.idle
		if b.crew.bug != nil {
			panic(b.crew.bug)
		}
	}
	b.syncer.meanwhile(ctx, b.pod, b.record, work, func() { b.help(ctx) })
	return b.crew.errs
}

// help does what does not wait for images while everybody else does: it stops containers
// whose probes fail, and starts what can be started.
func (b *batch) help(ctx context.Context) {
	claims, all := b.crew.blocked()
	if !all || ctx.Err() != nil {
		return
	}
	seen, err := b.syncer.observe(ctx, b.pod.UID, exact)
	if err != nil {
		return // those who wait will see
	}
	actions := b.syncer.plan(b.pod, b.record, seen)
	if actions.KillPod || actions.NewSandbox || actions.RestartAll || actions.SandboxID != b.sandboxID {
		return
	}
	b.stopFailed(ctx, seen, actions.Stop)
	starts := b.crew.join(actions.Start, claims)
	if len(starts) == 0 {
		return
	}
	other := batch{syncer: b.syncer, pod: b.pod, record: b.record, sandboxID: b.sandboxID, seen: seen, crew: b.crew, second: true}
	go func() {
		defer func() { b.crew.leave(recover()) }()
		other.startAll(ctx, starts)
	}()
}

// stopFailed stops the containers whose probes have failed.
func (b *batch) stopFailed(ctx context.Context, seen *podstatus.Observed, stops []Stop) {
	for _, stop := range stops {
		if !stop.Failed || !b.crew.stop(stop.ID) {
			continue
		}
		st := stopper{syncer: b.syncer, pod: b.pod, record: b.record, seen: seen, left: func(stop *Stop) time.Duration { return stopGrace(b.pod, stop) }}
		go func() {
			err := st.one(ctx, &stop)
			if err != nil {
				err = fmt.Errorf("stop container %s of pod %s/%s: %w", stop.Name, b.pod.Namespace, b.pod.Name, err)
			}
			b.crew.stops(err)
		}()
	}
}
