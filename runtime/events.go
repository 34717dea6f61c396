package runtime

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// EventType says what happened to a container.
type EventType uint8

// The types of Event, numbered as in CRI with one added, so that the zero value is
// none of them.
const (
	EventCreated EventType = iota + 1
	EventStarted
	EventStopped
	EventDeleted
	// EventsLost is of no container: events before it may be missing.
	EventsLost
)

// String returns the type in lower case.
func (t EventType) String() string {
	switch t {
	case EventCreated:
		return "created"
	case EventStarted:
		return "started"
	case EventStopped:
		return "stopped"
	case EventDeleted:
		return "deleted"
	case EventsLost:
		return "events lost"
	}
	return "unknown event"
}

// Event is a hint that a container changed. What it changed to is for Snapshot or
// ContainerStatus to say: an event may be late, doubled or lost.
type Event struct {
	Type EventType
	// ID is the container, or the sandbox for events of the sandbox itself.
	ID string
	// PodUID is empty when the runtime does not tell.
	PodUID types.UID
	// At is when the runtime saw it.
	At time.Time
}

// Events delivers what happens to containers from now on. It ends when the consumer
// stops, and otherwise with exactly one error: ErrUnimplemented from a runtime without
// events (containerd before 1.7, CRI-O unless enable_pod_events is set), ctx's error, or
// the loss of the connection. After an error events may be missing, so take a Snapshot
// before ranging again. A consumer that is slow delays only its own stream. Watch begins
// again by itself.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := c.receiveEvents(ctx, func() bool { return true }, func(e Event) bool { return yield(e, nil) })
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// Watch is Events over all losses of the connection. Each time it has begun to listen,
// the first time too, it delivers an event of type EventsLost: what happened before is
// unknown, so take a Snapshot. It ends with ErrUnimplemented, ErrClosed or ctx's error.
// A runtime that is down is tried again after 100 ms, growing to 3 s.
func (c *Client) Watch(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		opened := func() bool { return yield(Event{Type: EventsLost, At: time.Now()}, nil) }
		wait := reconnectMin
		for {
			began := time.Now()
			err := c.receiveEvents(ctx, opened, func(e Event) bool { return yield(e, nil) })
			if err == nil {
				return
			}
			if ctx.Err() != nil || errors.Is(err, ErrUnimplemented) || errors.Is(err, ErrClosed) {
				yield(Event{}, err)
				return
			}
			if time.Since(began) > reconnectMax {
				wait = reconnectMin
			}
			if sleep(ctx, wait) != nil {
				yield(Event{}, newOpError(operation{name: "GetContainerEvents"}, ctx.Err()))
				return
			}
			wait = min(2*wait, reconnectMax)
		}
	}
}

// receiveEvents hands on the events of one stream. It returns nil when opened, which is
// called when the runtime was reached, or event returned false.
func (c *Client) receiveEvents(ctx context.Context, opened func() bool, event func(Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := operation{name: "GetContainerEvents"}
	if c.missing.has(o.name) {
		return newOpError(o, ErrUnimplemented)
	}
	stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return c.callError(o, err, nil)
	}
	if !opened() {
		return nil
	}
	for n := 0; ; n++ {
		e, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			// CRI-O with events switched off ends the stream at once.
			err = newOpError(o, ErrUnimplemented)
		case errors.Is(err, io.EOF):
			err = newOpError(o, errEventsEnded)
		case err != nil:
			err = c.callError(o, err, stream.Trailer())
		case !event(newEvent(e)):
			return nil
		}
		if errors.Is(err, ErrUnimplemented) {
			c.missing.add(o.name)
		}
		if err != nil {
			return err
		}
	}
}

// sleep waits for d, or for the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errEventsEnded is the end of a stream that has none.
var errEventsEnded = errors.New("the container runtime ended the stream of events")

func newEvent(e *runtimeapi.ContainerEventResponse) Event {
	uid := e.GetPodSandboxStatus().GetLabels()[labelPodUID]
	if uid == "" {
		uid = e.GetPodSandboxStatus().GetMetadata().GetUid()
	}
	return Event{
		Type:   EventType(e.GetContainerEventType() + 1),
		ID:     e.GetContainerId(),
		PodUID: types.UID(uid),
		At:     time.Unix(0, e.GetCreatedAt()),
	}
}
