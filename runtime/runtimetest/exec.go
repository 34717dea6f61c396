package runtimetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exec is a command to run in a container.
type Exec struct {
	// Container is the container it runs in.
	Container Instance
	Cmd       []string
	// Timeout is zero for none.
	Timeout time.Duration
	// Stdin is never nil; without an input it is at its end.
	Stdin io.Reader
	// Stdout and Stderr take what the command writes while it runs, before what its
	// ExecResult has. They are never nil.
	Stdout, Stderr io.Writer
	// TTY says that a terminal was asked for.
	TTY bool
}

// ExecResult is how a command ends.
type ExecResult struct {
	// After is how long it takes. A command with a shorter timeout is killed.
	After  time.Duration
	Code   int32
	Stdout string
	Stderr string
}

// ExecSync implements CRI.
func (s *runtimeService) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	var stdout, stderr bytes.Buffer
	code, err := s.world.runExec(ctx, req.GetContainerId(), Exec{
		Cmd:     req.GetCmd(),
		Timeout: time.Duration(req.GetTimeout()) * time.Second,
		Stdin:   &bytes.Buffer{},
		Stdout:  &stdout,
		Stderr:  &stderr,
	})
	if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
		if resp, ok := s.world.kind.execTimeout(); ok {
			return resp, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: code}, nil
}

// runExec runs a command and returns its exit code.
func (w *world) runExec(ctx context.Context, id string, e Exec) (code int32, err error) {
	instance, process, err := w.running(id)
	if err != nil {
		return 0, err
	}
	if len(e.Cmd) == 0 {
		return 0, invalid("ExecSync: no command")
	}
	e.Container = instance
	var result ExecResult
	if w.exec != nil {
		result = w.exec(ctx, e)
	}
	return waitExec(ctx, process, e, result)
}

// waitExec lets the time of a command pass.
func waitExec(ctx context.Context, p *process, e Exec, result ExecResult) (code int32, err error) {
	var expired <-chan time.Time
	if e.Timeout > 0 {
		t := time.NewTimer(e.Timeout)
		defer t.Stop()
		expired = t.C
	}
	ended := time.NewTimer(result.After)
	defer ended.Stop()
	select {
	case <-ended.C:
		// A caller that is gone takes no output, which is its own affair.
		_, _ = io.WriteString(e.Stdout, result.Stdout)
		_, _ = io.WriteString(e.Stderr, result.Stderr)
		return result.Code, nil
	case <-expired:
		return 0, status.Errorf(codes.DeadlineExceeded, "failed to exec in container: timeout %s exceeded: context deadline exceeded", e.Timeout)
	case <-p.done:
		return exitKilled, nil
	case <-ctx.Done():
		return 0, status.FromContextError(ctx.Err()).Err()
	}
}

// Exec implements CRI.
func (s *runtimeService) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if _, _, err := s.world.running(req.GetContainerId()); err != nil {
		return nil, err
	}
	if streams := s.world.streamServer(); streams != nil {
		return streams.GetExec(req)
	}
	url, err := s.streamURL("exec")
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecResponse{Url: url}, nil
}

// Attach implements CRI.
func (s *runtimeService) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if _, _, err := s.world.running(req.GetContainerId()); err != nil {
		return nil, err
	}
	if streams := s.world.streamServer(); streams != nil {
		return streams.GetAttach(req)
	}
	url, err := s.streamURL("attach")
	if err != nil {
		return nil, err
	}
	return &runtimeapi.AttachResponse{Url: url}, nil
}

// PortForward implements CRI.
func (s *runtimeService) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	st, err := s.world.sandboxStatus(req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	if st.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", st.GetId())
	}
	if streams := s.world.streamServer(); streams != nil {
		return streams.GetPortForward(req)
	}
	url, err := s.streamURL("portforward")
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PortForwardResponse{Url: url}, nil
}

// streamURL makes a URL with a token that is valid once, as runtimes do.
func (s *runtimeService) streamURL(kind string) (string, error) {
	if s.world.streamingURL == "" {
		return "", status.Error(codes.Unimplemented, "runtimetest: Config.StreamingURL is not set")
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return fmt.Sprintf("%s/%s/%.8s", s.world.streamingURL, kind, s.world.newIDLocked(kind)), nil
}
