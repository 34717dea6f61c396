package runtime

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ExitError is the error of a command that ran in a container and ended with
// another exit code than zero. Callers that do not import this package find it by
// its method ExitStatus.
type ExitError struct {
	// Code is the exit code, never zero.
	Code int
}

// Error says with which code the command ended.
func (e *ExitError) Error() string { return fmt.Sprintf("command exited with code %d", e.Code) }

// ExitStatus returns Code.
func (e *ExitError) ExitStatus() int { return e.Code }

// ExecSync runs cmd in the container, waits for it and returns what it wrote. An
// exit code other than zero is an *ExitError beside the output. The runtime kills
// the command after timeout, rounded up to whole seconds, which is
// context.DeadlineExceeded; zero means no limit but ctx. The client itself gives up
// Config.Timeout later.
func (c *Client) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	o := operation{name: "ExecSync", id: id}
	if timeout > 0 {
		o.timeout = timeout + c.timeout
	}
	resp, err := call(ctx, c, o, c.runtime.ExecSync, &runtimeapi.ExecSyncRequest{
		ContainerId: id,
		Cmd:         cmd,
		Timeout:     wholeSeconds(timeout),
	})
	if err != nil {
		return nil, nil, err
	}
	if isExecTimeout(resp) {
		return resp.GetStdout(), resp.GetStderr(), newOpError(o, context.DeadlineExceeded)
	}
	if code := resp.GetExitCode(); code != 0 {
		err = newOpError(o, &ExitError{Code: int(code)})
	}
	return resp.GetStdout(), resp.GetStderr(), err
}

// isExecTimeout recognises the answer of CRI-O for a command that it killed at its
// timeout: exit code -1 and the words of conmon
// (https://github.com/containers/conmon/blob/main/runner/config/config.go).
func isExecTimeout(resp *runtimeapi.ExecSyncResponse) bool {
	return resp.GetExitCode() == -1 && string(resp.GetStderr()) == "command timed out"
}

// wholeSeconds rounds up, because the API knows only seconds and zero means none.
func wholeSeconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}

// Exec prepares a command in a container and returns the URL at which its streams
// are served.
func (c *Client) Exec(ctx context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	o := c.op("Exec", req.GetContainerId())
	resp, err := call(ctx, c, o, c.runtime.Exec, req)
	if err != nil {
		return nil, err
	}
	if err := checkNonEmpty("url", resp.GetUrl()); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}

// Attach returns the URL at which the streams of a running container are served.
func (c *Client) Attach(ctx context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	o := c.op("Attach", req.GetContainerId())
	resp, err := call(ctx, c, o, c.runtime.Attach, req)
	if err != nil {
		return nil, err
	}
	if err := checkNonEmpty("url", resp.GetUrl()); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}
