package runtimetest

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventBuffer is how many events a subscriber may be behind before it loses some.
const eventBuffer = 1000

// broadcast sends events to whoever listens. The world's lock guards it.
type broadcast struct {
	subscribers map[chan *runtimeapi.ContainerEventResponse]struct{}
}

func (w *world) subscribe() chan *runtimeapi.ContainerEventResponse {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events.subscribers == nil {
		w.events.subscribers = make(map[chan *runtimeapi.ContainerEventResponse]struct{})
	}
	ch := make(chan *runtimeapi.ContainerEventResponse, eventBuffer)
	w.events.subscribers[ch] = struct{}{}
	return ch
}

func (w *world) unsubscribe(ch chan *runtimeapi.ContainerEventResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.events.subscribers, ch)
}

func (w *world) publishLocked(kind runtimeapi.ContainerEventType, id string, s *sandbox) {
	for ch := range w.events.subscribers {
		e := &runtimeapi.ContainerEventResponse{
			ContainerId:        id,
			ContainerEventType: kind,
			CreatedAt:          time.Now().UnixNano(),
			PodSandboxStatus:   s.statusLocked(),
		}
		for _, c := range w.containersOfLocked(s) {
			e.ContainersStatuses = append(e.ContainersStatuses, c.statusLocked())
		}
		select {
		case ch <- e:
		default:
			// A real runtime drops too.
		}
	}
}

// GetContainerEvents implements CRI.
func (s *runtimeService) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if s.world.kind == CRIO {
		// Events are off by default, which is the end of the stream and no error.
		return nil
	}
	ch := s.world.subscribe()
	defer s.world.unsubscribe(ch)
	for {
		select {
		case e := <-ch:
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// networkState is the condition NetworkReady. The world's lock guards it.
type networkState struct {
	problem string
}

func (n networkState) condition() *runtimeapi.RuntimeCondition {
	if n.problem == "" {
		return &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true}
	}
	return &runtimeapi.RuntimeCondition{
		Type:    runtimeapi.NetworkReady,
		Reason:  "NetworkPluginNotReady",
		Message: "Network plugin returns error: " + n.problem,
	}
}

// errNoNetwork is why a sandbox cannot be made.
func (n networkState) err() error {
	if n.problem == "" {
		return nil
	}
	return status.Error(codes.Unknown, "failed to setup network for sandbox: "+n.problem)
}
