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
// stops, and otherwise with exactly one error: ErrUnimplemented from a runtime
// without events (containerd before 1.7), ctx's error, or the loss of the
// connection. After an error events may be missing, so take a Snapshot before
// ranging again. A consumer that is slow delays only its own stream.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		o := operation{name: "GetContainerEvents"}
		stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		if err != nil {
			yield(Event{}, c.callError(o, err, nil))
			return
		}
		for {
			e, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				yield(Event{}, newOpError(o, errEventsEnded))
				return
			}
			if err != nil {
				yield(Event{}, c.callError(o, err, stream.Trailer()))
				return
			}
			if !yield(newEvent(e), nil) {
				return
			}
		}
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
