package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// Event is something that happened to a container or to the pod.
type Event struct {
	// At is the time since the beginning.
	At time.Duration
	// Who is a container, or "pod".
	Who string
	// Run counts the runs of the container, from 1; 0 for the pod.
	Run int
	// What is a verb such as "starts", with what belongs to it.
	What string
}

// ranks orders what happened at the same moment: first what ends, then what begins.
var ranks = []string{"exits", "preStop ends", "postStart ends", "gets TERM", "starts", "postStart", "preStop", "probe"}

func (e *Event) rank() int {
	if e.Who == Outside {
		return -1
	}
	for i, verb := range ranks {
		if strings.HasPrefix(e.What, verb) {
			return i
		}
	}
	return len(ranks)
}

// String returns the event as a line of the story.
func (e *Event) String() string {
	who := e.Who
	if e.Run > 1 {
		who = fmt.Sprintf("%s#%d", e.Who, e.Run)
	}
	return fmt.Sprintf("%8.2fs  %s %s", e.At.Seconds(), who, e.What)
}

// Outside is who does what is a [Step].
const Outside = "—"

// Recorder collects what happens. It is safe for use by many goroutines.
type Recorder struct {
	// mu guards the fields below.
	mu     sync.Mutex
	began  time.Time
	events []Event
	runs   map[string]run
	count  map[string]int
	ender  ender
	// started is told of each start, with no lock held.
	started func(id, name string, number int)
}

// ender ends a container, as runtimetest.Server does.
type ender interface {
	Exit(pod, container string, e runtimetest.Exit) error
}

type run struct {
	name    string
	number  int
	started time.Time
}

// NewRecorder returns a recorder whose story begins now.
func NewRecorder() *Recorder {
	return &Recorder{began: time.Now(), runs: map[string]run{}, count: map[string]int{}}
}

// Happens records an event of now. Of the pod nothing is recorded twice in a row.
func (r *Recorder) Happens(who string, number int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(Event{At: r.sinceLocked(time.Now()), Who: who, Run: number, What: what})
}

func (r *Recorder) addLocked(e Event) {
	if e.Who == "pod" {
		for _, last := range slices.Backward(r.events) {
			if last.Who != "pod" {
				continue
			}
			if last.What == e.What {
				return
			}
			break
		}
	}
	r.events = append(r.events, e)
}

// Starts records the start of a container and returns which run it is.
func (r *Recorder) Starts(id, name string) int {
	r.mu.Lock()
	r.count[name]++
	number := r.count[name]
	r.runs[id] = run{name: name, number: number, started: time.Now()}
	r.addLocked(Event{At: r.sinceLocked(time.Now()), Who: name, Run: number, What: "starts"})
	tell := r.started
	r.mu.Unlock()
	if tell != nil {
		tell(id, name, number)
	}
	return number
}

// OnStart has a function told of every start from now on.
func (r *Recorder) OnStart(tell func(id, name string, number int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = tell
}

// Stops adds the requests to stop containers, as the runtime has got them. Those that
// came after the end of their container are left out.
func (r *Recorder) Stops(calls []runtimetest.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range calls {
		req, ok := call.Request.(*runtimeapi.StopContainerRequest)
		if !ok {
			continue
		}
		known, ok := r.runs[req.GetContainerId()]
		at := r.sinceLocked(call.Began)
		if ok && !r.endedLocked(known, at) {
			r.addLocked(Event{At: at, Who: known.name, Run: known.number, What: fmt.Sprintf("gets TERM and %ds", req.GetTimeout())})
		}
	}
}

func (r *Recorder) endedLocked(known run, at time.Duration) bool {
	return slices.ContainsFunc(r.events, func(e Event) bool {
		return e.Who == known.name && e.Run == known.number && strings.HasPrefix(e.What, "exits") && e.At < at
	})
}

func (r *Recorder) sinceLocked(t time.Time) time.Duration {
	return t.Sub(r.began).Round(10 * time.Millisecond)
}

// Of records an event of now, of the container with this id.
func (r *Recorder) Of(id, what string) { r.ofAt(time.Now(), id, what) }

// ofAt records an event that is heard of later than it happens.
func (r *Recorder) ofAt(at time.Time, id, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.runs[id]; ok {
		r.addLocked(Event{At: r.sinceLocked(at), Who: known.name, Run: known.number, What: what})
	}
}

// RunOf returns the name of the container with this id, which run of it that is, and when
// it started.
func (r *Recorder) RunOf(id string) (name string, number int, started time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.runs[id]
	return known.name, known.number, known.started
}

// Events returns what happened so far, in order.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.events)
	slices.SortStableFunc(out, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Who, b.Who), cmp.Compare(a.Run, b.Run))
	})
	return out
}

// String returns the story so far, one event a line.
func (r *Recorder) String() string {
	var b strings.Builder
	for _, e := range r.Events() {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
