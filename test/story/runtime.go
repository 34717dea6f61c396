package story

import (
	"context"
	"fmt"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// callTime is what it takes the runtime to create or start something, so that what
// happens one after the other does not happen at the same time.
const callTime = 10 * time.Millisecond

// Runtime returns the runtime of the story: its containers live as the story says, and
// what they and their hooks do is recorded.
func (s *Story) Runtime(r *Recorder) runtimetest.Config {
	return runtimetest.Config{
		Images: []runtimetest.Image{
			{Name: Image},
			{Name: Image[:len(Image)-1] + "2"},
			{Name: Broken, Pull: &runtimetest.Pull{Err: fmt.Errorf("manifest unknown")}},
		},
		Script: func(i runtimetest.Instance) *runtimetest.Life {
			name := i.Config.GetMetadata().GetName()
			lives := s.Lives[name]
			number := r.next(name)
			if len(lives) == 0 {
				r.Starts(i.ID, name)
				return nil
			}
			life := lives[min(number, len(lives))-1]
			if life.StartError == "" {
				r.Starts(i.ID, name)
			} else {
				r.Happens(name, number, "cannot start")
			}
			return &life
		},
		Exec: func(ctx context.Context, e runtimetest.Exec) runtimetest.ExecResult { return s.exec(ctx, r, e) },
	}
}

// Slow lets the calls of the runtime take their time.
func Slow(server *runtimetest.Server) {
	for _, rpc := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		server.Inject(rpc, runtimetest.Fault{Delay: callTime})
	}
}

// next returns the number of the next run of a container.
func (r *Recorder) next(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[name] + 1
}

// exec runs the command of a hook or a probe.
func (s *Story) exec(ctx context.Context, r *Recorder, e runtimetest.Exec) runtimetest.ExecResult {
	if len(e.Cmd) != 4 {
		return runtimetest.ExecResult{Code: 127, Stderr: "want a hook, what it does, how long and an exit code"}
	}
	hook, does := e.Cmd[0], e.Cmd[1]
	after, err := time.ParseDuration(e.Cmd[2])
	code, err2 := strconv.ParseInt(e.Cmd[3], 10, 32)
	if err != nil || err2 != nil {
		return runtimetest.ExecResult{Code: 127, Stderr: "not a duration or no exit code"}
	}
	r.Of(e.Container.ID, hook)
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		r.Of(e.Container.ID, hook+" is cut off")
		return runtimetest.ExecResult{}
	}
	if does == "end" {
		r.end(e.Container, runtimetest.Exit{Code: int32(code)})
		code = 0
	}
	r.Of(e.Container.ID, hook+" ends")
	return runtimetest.ExecResult{Code: int32(code)}
}

// end ends a container through whoever the driver named for it.
func (r *Recorder) end(i runtimetest.Instance, e runtimetest.Exit) {
	r.mu.Lock()
	ender := r.ender
	r.mu.Unlock()
	if ender != nil {
		meta := i.Sandbox.GetMetadata()
		// A container that has ended meanwhile is what the hook wants.
		_ = ender.Exit(meta.GetNamespace()+"/"+meta.GetName(), i.Config.GetMetadata().GetName(), e)
	}
}

// Watch takes the ends of containers from the events of a runtime until ctx ends, and
// tells the driver of each event. server is where hooks end containers.
func (r *Recorder) Watch(ctx context.Context, server *runtimetest.Server, c runtimeapi.RuntimeServiceClient, tell func()) error {
	r.mu.Lock()
	r.ender = server
	r.mu.Unlock()
	stream, err := c.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return nil // the end of the story, or of the runtime
		}
		if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
			for _, st := range e.GetContainersStatuses() {
				if st.GetId() == e.GetContainerId() {
					r.ofAt(time.Unix(0, st.GetFinishedAt()), st.GetId(), fmt.Sprintf("exits with %d", st.GetExitCode()))
				}
			}
		}
		tell()
	}
}
