package runtimetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Streams gives out the URLs of exec, attach and port-forward and serves what is behind
// them, by calling the Server's ExecStream, AttachStream and ForwardStream. Package
// runtimetest/streaming has one.
type Streams interface {
	GetExec(*runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	GetAttach(*runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	GetPortForward(*runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
}

// ServeStreams makes the server answer Exec, Attach and PortForward with URLs of streams.
// Nil ends that.
func (s *Server) ServeStreams(streams Streams) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.streams = streams
}

func (w *world) streamServer() Streams {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams
}

// ExecStream runs a command whose streams are e's, as Config.Exec says, and returns its
// exit code. e.Container is filled in.
func (s *Server) ExecStream(ctx context.Context, containerID string, e Exec) (code int32, err error) {
	return s.world.runExec(ctx, containerID, e)
}

// Attach is a client of a running container.
type Attach struct {
	// Stdin is read line by line for a container whose Life echoes; nil means nothing.
	Stdin io.Reader
	// Stdout and Stderr get what the container writes from now on; nil means nowhere.
	Stdout, Stderr io.Writer
}

// AttachStream lets a client see what a container writes, and write to it, until the
// container ends, the client is gone or ctx ends.
func (s *Server) AttachStream(ctx context.Context, containerID string, a Attach) error {
	_, p, err := s.world.running(containerID)
	if err != nil {
		return err
	}
	lines := p.attached.join()
	defer p.attached.leave(lines)
	if a.Stdin != nil {
		s.world.attached.Go(func() { p.listen(a.Stdin) })
	}
	for {
		select {
		case line := <-lines:
			if err := a.write(line); err != nil {
				return err
			}
		case <-p.done:
			return a.rest(lines)
		case <-ctx.Done():
			return nil
		}
	}
}

// rest writes what was said before the end.
func (a Attach) rest(lines chan LogLine) error {
	for {
		select {
		case line := <-lines:
			if err := a.write(line); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (a Attach) write(line LogLine) error {
	w := a.Stdout
	if line.Stream == runtimeapi.Stderr {
		w = a.Stderr
	}
	if w == nil {
		return nil
	}
	text := line.Text
	if !line.Partial {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// ForwardStream connects a client with a port of a ready sandbox, as Config.Forward says.
func (s *Server) ForwardStream(ctx context.Context, sandboxID string, port int32, conn io.ReadWriteCloser) error {
	s.world.mu.Lock()
	sb, err := s.world.readySandboxLocked(sandboxID)
	if err != nil {
		s.world.mu.Unlock()
		return err
	}
	pod := clone(sb.config)
	s.world.mu.Unlock()
	if s.world.forward == nil {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace %q: connection refused", port, sandboxID)
	}
	return s.world.forward(ctx, pod, port, conn)
}

// write is what a process writes: to its log and to who is attached.
func (p *process) write(line LogLine) {
	p.log.write(line)
	p.attached.tell(line)
}

// listen reads what a client sends. It ends with the client's connection.
func (p *process) listen(stdin io.Reader) {
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		if p.life.Echo {
			p.write(LogLine{Text: lines.Text()})
		}
	}
}

// audienceBuffer is how many lines a client may be behind before it loses some.
const audienceBuffer = 1000

// audience is who is attached to a process.
type audience struct {
	mu      sync.Mutex
	members map[chan LogLine]struct{}
}

func (a *audience) join() chan LogLine {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.members == nil {
		a.members = make(map[chan LogLine]struct{})
	}
	ch := make(chan LogLine, audienceBuffer)
	a.members[ch] = struct{}{}
	return ch
}

func (a *audience) leave(ch chan LogLine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.members, ch)
}

func (a *audience) tell(line LogLine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ch := range a.members {
		select {
		case ch <- line:
		default:
			// A runtime does not wait for a client that does not read.
		}
	}
}
