package runtimetest

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Kind is whose ways a Server has where runtimes differ.
type Kind uint8

const (
	// Containerd is containerd 2.0: it has events and RuntimeConfig, and sends every list
	// in one message. A stop of an unknown id is NotFound, as before 2.0.
	Containerd Kind = iota
	// Containerd16 is containerd 1.6, without events and RuntimeConfig.
	Containerd16
	// Containerd24 is containerd 2.4: lists may be streamed, a stop of an unknown id
	// succeeds, and a name in use is FailedPrecondition.
	Containerd24
	// CRIO is CRI-O 1.37 as it comes, thus without events. Asked for a name in use, it
	// returns the id that has it. What cannot be started cannot be created. A command
	// that was killed at its timeout is an exit code of -1. Few of its errors have codes.
	CRIO
)

// String returns the runtime's name.
func (k Kind) String() string {
	switch k {
	case Containerd:
		return "containerd"
	case Containerd16:
		return "containerd 1.6"
	case Containerd24:
		return "containerd 2.4"
	case CRIO:
		return "CRI-O"
	}
	return "unknown runtime"
}

// streamsLists reports whether lists come in several messages if the client likes.
func (k Kind) streamsLists() bool { return k == Containerd24 || k == CRIO }

// stopsUnknown reports whether stopping what is not there succeeds, as CRI wants it.
func (k Kind) stopsUnknown() bool { return k == Containerd24 || k == CRIO }

// lacks reports whether the runtime does not have a call.
func (c Config) lacks(rpc string) bool {
	switch {
	case slices.Contains(c.Lacks, rpc):
		return true
	case strings.HasPrefix(rpc, "Stream"):
		return !c.Kind.streamsLists()
	case c.Kind == Containerd16:
		return rpc == "GetContainerEvents" || rpc == "RuntimeConfig" || rpc == "UpdatePodSandboxResources" ||
			rpc == "ListMetricDescriptors" || rpc == "ListPodSandboxMetrics"
	}
	return false
}

// unimplemented is what gRPC answers for a call that the runtime does not have.
func unimplemented(rpc string) error {
	return status.Errorf(codes.Unimplemented, "unknown method %s", rpc)
}

// reserved is the error for a name in use. containerd tells it by its text alone, or by a
// code that means something else.
func (k Kind) reserved(what, name, id string) error {
	code := codes.Unknown
	if k == Containerd24 {
		code = codes.FailedPrecondition
	}
	return status.Errorf(code, "failed to reserve %s name %q: name %q is reserved for %q", what, name, name, id)
}

// unknownContainer is the error for an unknown id of calls to which CRI-O gives no code.
func (k Kind) unknownContainer(id string) error {
	if k == CRIO {
		return status.Errorf(codes.Unknown, "container with ID starting with %s not found: ID does not exist", id)
	}
	return notFound("container", id)
}

// cgroupDriver is the default of each.
func (k Kind) cgroupDriver() runtimeapi.CgroupDriver {
	if k == CRIO {
		return runtimeapi.CgroupDriver_SYSTEMD
	}
	return runtimeapi.CgroupDriver_CGROUPFS
}

// execTimeout is the answer for a command that was killed at its timeout, and ok is false
// where it is an error.
func (k Kind) execTimeout() (resp *runtimeapi.ExecSyncResponse, ok bool) {
	if k != CRIO {
		return nil, false
	}
	return &runtimeapi.ExecSyncResponse{ExitCode: -1, Stderr: []byte("command timed out")}, true
}
