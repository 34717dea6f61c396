package streaming

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// headerTimeout bounds how long a client may take to say what it wants.
const headerTimeout = 10 * time.Second

// Server serves streams on a TCP port of 127.0.0.1.
type Server struct {
	http    *http.Server
	serving sync.WaitGroup
	// open is read-locked by each stream: the http.Server does not see them any more.
	open    sync.RWMutex
	cancel  context.CancelFunc
	runtime *runtimetest.Server
}

// New serves the streams of rt until Close. ctx bounds all of them.
func New(ctx context.Context, rt *runtimetest.Server) (*Server, error) {
	var listen net.ListenConfig
	lis, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for streams: %w", err)
	}
	cfg := streaming.DefaultConfig
	cfg.BaseURL = &url.URL{Scheme: "http", Host: lis.Addr().String()}
	handler, err := streaming.NewServer(cfg, streams{rt})
	if err != nil {
		lis.Close()
		return nil, fmt.Errorf("serve streams: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{cancel: cancel, runtime: rt}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.open.RLock()
			defer s.open.RUnlock()
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.serving.Go(func() {
		// Serve returns http.ErrServerClosed after Close; the listener is ours and has no
		// other error.
		_ = s.http.Serve(lis)
	})
	rt.ServeStreams(handler)
	return s, nil
}

// Start is New for a test, and Close at its end.
func Start(tb testing.TB, rt *runtimetest.Server) {
	tb.Helper()
	s, err := New(tb.Context(), rt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
}

// Close ends all streams and waits for them. The runtime gives out no URLs after that.
func (s *Server) Close() error {
	s.runtime.ServeStreams(nil)
	s.cancel()
	err := s.http.Close()
	s.serving.Wait()
	s.open.Lock()
	defer s.open.Unlock()
	return err
}

// streams is what cri-streaming asks for.
type streams struct{ runtime *runtimetest.Server }

var _ streaming.Runtime = streams{}

// Exec runs a command. Terminals have no size here.
//
//nolint:revive // The arguments are those of the interface.
func (s streams) Exec(ctx context.Context, containerID string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	e := runtimetest.Exec{Cmd: cmd, TTY: tty, Stdin: in, Stdout: io.Discard, Stderr: io.Discard}
	if in == nil {
		e.Stdin = &bytes.Buffer{}
	}
	if out != nil {
		e.Stdout = out
	}
	if errOut != nil {
		e.Stderr = errOut
	}
	code, err := s.runtime.ExecStream(ctx, containerID, e)
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// Attach lets a client see and feed a container.
//
//nolint:revive // The arguments are those of the interface.
func (s streams) Attach(ctx context.Context, containerID string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	a := runtimetest.Attach{Stdin: in}
	// An interface that holds a nil pointer is not nil.
	if out != nil {
		a.Stdout = out
	}
	if errOut != nil {
		a.Stderr = errOut
	}
	return s.runtime.AttachStream(ctx, containerID, a)
}

// PortForward connects a client with a port of a pod.
func (s streams) PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error {
	return s.runtime.ForwardStream(ctx, sandboxID, port, stream)
}

// exitError is an exit code in the form of k8s.io/utils/exec.ExitError, which
// cri-streaming looks for.
type exitError int32

// Error says with which code the command ended.
func (e exitError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", int32(e))
}

// String returns Error.
func (e exitError) String() string { return e.Error() }

// Exited returns true.
func (exitError) Exited() bool { return true }

// ExitStatus returns the code.
func (e exitError) ExitStatus() int { return int(e) }
