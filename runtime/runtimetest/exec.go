package runtimetest

import (
	"context"
	"fmt"
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
	instance, process, err := s.world.running(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if len(req.GetCmd()) == 0 {
		return nil, invalid("ExecSync: no command")
	}
	timeout := time.Duration(req.GetTimeout()) * time.Second
	var result ExecResult
	if s.world.exec != nil {
		result = s.world.exec(ctx, Exec{Container: instance, Cmd: req.GetCmd(), Timeout: timeout})
	}
	return waitExec(ctx, process, timeout, result)
}

// waitExec lets the time of a command pass.
func waitExec(ctx context.Context, p *process, timeout time.Duration, result ExecResult) (*runtimeapi.ExecSyncResponse, error) {
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	ended := time.NewTimer(result.After)
	defer ended.Stop()
	select {
	case <-ended.C:
		return &runtimeapi.ExecSyncResponse{
			Stdout:   []byte(result.Stdout),
			Stderr:   []byte(result.Stderr),
			ExitCode: result.Code,
		}, nil
	case <-expired:
		return nil, status.Errorf(codes.DeadlineExceeded, "failed to exec in container: timeout %s exceeded: context deadline exceeded", timeout)
	case <-p.done:
		return &runtimeapi.ExecSyncResponse{ExitCode: exitKilled}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// Exec implements CRI.
func (s *runtimeService) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if _, _, err := s.world.running(req.GetContainerId()); err != nil {
		return nil, err
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
