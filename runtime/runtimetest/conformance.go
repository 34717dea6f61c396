package runtimetest

import (
	"context"
	"testing"

	"github.com/nodekit-go/nodekit/runtime"
)

// Target is a runtime that Conformance checks: a Server, or a real one.
type Target struct {
	// Dial connects to it. Conformance closes the client.
	Dial func(ctx context.Context, cfg runtime.Config) (*runtime.Client, error)
	// Image is the name of an image that is present.
	Image string
	// Args returns the arguments with which a container of Image lives like that. It
	// is told the name of the container. Of a Life the fields Exit.After, Exit.Code and
	// IgnoreTerm are used; a life that does not ignore SIGTERM ends at once with the
	// code 0. It begins by writing a line, when it knows what to do with a signal.
	Args func(container string, life Life) []string
	// Exec returns the command that ends like that in a container of Image. Of an
	// ExecResult the fields After and Code are used.
	Exec func(ExecResult) []string
	// CgroupParent is for the sandboxes; empty means what the runtime chooses.
	CgroupParent string
}

// Conformance checks what users of a runtime.Client rely on, against the runtime that
// target describes. What it finds equal for a Server and a real runtime is what a test
// with a Server proves. It makes pods in the namespace "conformance", removes them, and
// leaves everything else on the runtime alone.
func Conformance(t *testing.T, target Target) {
	t.Helper()
	for _, c := range conformanceCases() {
		t.Run(c.name, func(t *testing.T) { c.run(newConformanceRun(t, target)) })
	}
}

// conformanceCase is a row of the table.
type conformanceCase struct {
	name string
	run  func(*conformanceRun)
}

func conformanceCases() []conformanceCase {
	return []conformanceCase{
		{"the runtime tells its version and its conditions", checkAnswersAboutItself},
		{"a sandbox is ready, then stopped, then gone", checkSandboxLife},
		{"a sandbox's name is one sandbox's until that is removed", checkSandboxNameReserved},
		{"a sandbox takes its containers along", checkSandboxTakesContainers},
		{"a sandbox carries its labels and annotations", checkSandboxIdentity},
		{"a created container does not run", checkCreateDoesNotStart},
		{"a container starts once", checkStartsOnce},
		{"a container's end is told with code and reason", checkExit},
		{"a command that cannot be started is an exit with code 128, or creates nothing", checkStartError},
		{"a container that ends when asked is not killed", checkStopGently},
		{"a container that ignores being asked is killed after the grace period", checkStopKills},
		{"a stop that the caller gave up leaves the container to itself", checkStopGivenUp},
		{"a running container is removed by force", checkRemoveRunning},
		{"a container's name is one container's until that is removed", checkContainerNameReserved},
		{"a container needs a ready sandbox and a present image", checkCreateNeeds},
		{"a container carries its labels and annotations", checkContainerIdentity},
		{"lists show what the filter asks for", checkFilters},
		{"the log is written, and anew after it was renamed", checkLog},
		{"a command's exit code is an ExitError", checkExec},
		{"a command is killed at its timeout", checkExecTimeout},
		{"unknown ids are ErrNotFound where it matters", checkUnknownIDs},
		{"an unknown image is a nil image", checkImages},
		{"statistics name running containers", checkStats},
		{"resources of an unknown container are ErrNotFound", checkUpdateResources},
		{"snapshots show each step of a pod", checkSnapshots},
		{"events tell of a start, or are ErrUnimplemented", checkEvents},
		{"a watch begins with a loss, or is ErrUnimplemented", checkWatch},
		{"exec, attach and port-forward give URLs, or are ErrUnimplemented", checkStreamURLs},
		{"lists of everything agree with lists of one", checkLists},
		{"an answer over the limit is ErrTooLarge", checkTooLarge},
		{"a slow call delays no other", checkNoQueue},
		{"a closed client is ErrClosed", checkClosed},
	}
}
