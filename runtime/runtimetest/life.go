package runtimetest

import (
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exit codes of a process that a signal ended, as a runtime reports them: 128 plus the
// number in signal(7).
const (
	exitKilled     = 128 + 9
	exitTerminated = 128 + 15
	// exitStartError is what containerd reports for a process that could not be started.
	exitStartError = 128
)

// Life is what happens to a container from StartContainer on. The zero value runs
// until it is stopped and ends at once when asked to.
type Life struct {
	// StartError makes StartContainer fail with this text; the container is then exited
	// with code 128 and reason StartError.
	StartError string
	// Exit is how the container ends by itself; nil means that it does not.
	Exit *Exit
	// Term is how it ends once it is asked to stop (SIGTERM); nil means at once, with
	// code 143.
	Term *Exit
	// IgnoreTerm makes it go on when asked, until it is killed.
	IgnoreTerm bool
	// Log is what it writes: by the time, and lines of one time in their order here. What
	// is due at the end is written before it.
	Log []LogLine
	// Echo makes it write each line that an attached client sends, as cat does.
	Echo bool
}

// Exit is an end of a container.
type Exit struct {
	// After is the time from the start, or from the signal, to the end.
	After time.Duration
	// Code is the exit code.
	Code int32
	// OOM makes it an end by the kernel for want of memory: code 137, reason OOMKilled.
	OOM bool
}

// LogLine is one line a container writes.
type LogLine struct {
	// After is the time from the start.
	After time.Duration
	// Stream is stdout unless it says stderr.
	Stream runtimeapi.LogStreamType
	// Text is the line without its end.
	Text string
	// Partial marks a piece of a line that goes on in the next entry.
	Partial bool
}

// Instance is one container: with its attempt, its pod and its pod's sandbox.
type Instance struct {
	ID      string
	Sandbox *runtimeapi.PodSandboxConfig
	Config  *runtimeapi.ContainerConfig
}

// Exits is a life that ends after d with an exit code.
func Exits(d time.Duration, code int32) Life { return Life{Exit: &Exit{After: d, Code: code}} }

// OOMs is a life that the kernel ends after d for want of memory.
func OOMs(d time.Duration) Life { return Life{Exit: &Exit{After: d, OOM: true}} }

// result is the exit code and the reason of CRI.
func (e Exit) result() (code int32, reason string) {
	switch {
	case e.OOM:
		return exitKilled, "OOMKilled"
	case e.Code == 0:
		return 0, "Completed"
	default:
		return e.Code, "Error"
	}
}

// killed is the end by SIGKILL.
func killed() Exit { return Exit{Code: exitKilled} }

// term is the end by SIGTERM of a life that does not ignore it.
func (l Life) term() Exit {
	if l.Term != nil {
		return *l.Term
	}
	return Exit{Code: exitTerminated}
}
