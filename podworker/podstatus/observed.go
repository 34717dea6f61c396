package podstatus

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Observed is what the runtime reports of one pod. The zero value is a pod the
// runtime knows nothing of.
type Observed struct {
	// Sandboxes are newest first, see [Observed.Sort].
	Sandboxes []Sandbox
	// Containers are newest first for each name, over all sandboxes.
	Containers []Instance
}

// Sandbox is one pod sandbox: what the containers of a pod share.
type Sandbox struct {
	// ID is the runtime's id.
	ID string
	// Attempt counts the sandboxes made for the pod, from 0.
	Attempt uint32
	// Ready is true while the sandbox can hold containers.
	Ready bool
	// HostNetwork is true when the sandbox is in the network namespace of the node.
	HostNetwork bool
	// NetworkKnown is true when the runtime reported on the network of the sandbox.
	NetworkKnown bool
	// IPs are the addresses of the sandbox, the primary one first. They are empty
	// on the network of the node.
	IPs []string
	// Owner is the id of the agent that made the sandbox, empty if it left none.
	Owner string
	// CreatedAt is when the sandbox was made.
	CreatedAt time.Time
}

// State is the state of an [Instance].
type State uint8

// The states of a container as CRI v1 names them.
const (
	// StateUnknown containers are ones whose state the runtime has lost.
	StateUnknown State = iota
	// StateCreated containers have not been started.
	StateCreated
	// StateRunning containers run.
	StateRunning
	// StateExited containers have ended, whatever the exit code.
	StateExited
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case StateCreated:
		return "created"
	case StateRunning:
		return "running"
	case StateExited:
		return "exited"
	case StateUnknown:
		return "unknown"
	}
	return "invalid"
}

// Instance is one run of a container of the pod spec.
type Instance struct {
	// Name is the name of the container in the spec.
	Name string
	// ID is the runtime's id, without the name of the runtime.
	ID string
	// SandboxID names the sandbox the container lives in.
	SandboxID string
	// State is where the container stands.
	State State
	// RestartCount counts the runs of the container, from 0.
	RestartCount int32
	// Hash is the hash of the spec the container was made from, as the agent
	// recorded it; empty if it left none.
	Hash string
	// Step is the crash back-off that applies when this run ends early; negative
	// when whoever made the container left no record of it.
	Step time.Duration
	// Image is the name of the image and ImageRef its digest, as the runtime
	// reports them.
	Image, ImageRef string
	// CreatedAt, StartedAt and FinishedAt are zero until the event has happened.
	CreatedAt, StartedAt, FinishedAt time.Time
	// ExitCode is valid in StateExited.
	ExitCode int32
	// Reason and Message are what the runtime or the container says of its state.
	Reason, Message string
	// User is the identity of the first process, nil where the runtime does not say.
	User *corev1.LinuxContainerUser
	// Resources is what the container has, see [Granted]; nil where the runtime does
	// not say. What is missing in it is not known.
	Resources *corev1.ResourceRequirements
	// RecursiveReadOnly is true if what is mounted below a read-only mount of the container
	// is read-only, too: then all mounts of the pod that ask for it are so.
	RecursiveReadOnly bool
	// StopSignal is what stops the container, empty where the runtime does not say.
	StopSignal corev1.Signal
}

// Sort puts the newest sandbox and the newest instances first: sandboxes by
// attempt, then age; containers by restart count, then age. The count goes first since
// the clock may have been set back between two runs.
func (o *Observed) Sort() {
	slices.SortStableFunc(o.Sandboxes, func(a, b Sandbox) int {
		if a.Attempt != b.Attempt {
			return newestFirst(a.Attempt < b.Attempt)
		}
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	slices.SortStableFunc(o.Containers, func(a, b Instance) int {
		if c := cmp.Compare(b.RestartCount, a.RestartCount); c != 0 {
			return c
		}
		return b.CreatedAt.Compare(a.CreatedAt)
	})
}

func newestFirst(older bool) int {
	if older {
		return 1
	}
	return -1
}

// Newest returns the newest instance of the named container, nil if there is
// none.
func (o *Observed) Newest(name string) *Instance {
	for i := range o.Containers {
		if o.Containers[i].Name == name {
			return &o.Containers[i]
		}
	}
	return nil
}

// before returns the instance of the same container that came before in.
func (o *Observed) before(in *Instance) *Instance {
	past := false
	for i := range o.Containers {
		c := &o.Containers[i]
		if past && c.Name == in.Name {
			return c
		}
		if c == in {
			past = true
		}
	}
	return nil
}

// ReadySandbox returns the newest sandbox that is ready, nil if there is none.
func (o *Observed) ReadySandbox() *Sandbox {
	for i := range o.Sandboxes {
		if o.Sandboxes[i].Ready {
			return &o.Sandboxes[i]
		}
	}
	return nil
}

// Running reports whether any container runs or may run.
func (o *Observed) Running() bool {
	return slices.ContainsFunc(o.Containers, func(c Instance) bool {
		return c.State == StateRunning || c.State == StateUnknown
	})
}

// recursive reports whether the runtime makes mounts recursively read-only for the pod.
func (o *Observed) recursive() bool {
	return slices.ContainsFunc(o.Containers, func(i Instance) bool { return i.RecursiveReadOnly })
}

// anyOf reports whether the newest sandbox has an instance of any of these containers.
func (o *Observed) anyOf(list []corev1.Container) bool {
	if len(o.Sandboxes) == 0 {
		return false
	}
	return slices.ContainsFunc(o.Containers, func(i Instance) bool {
		return i.SandboxID == o.Sandboxes[0].ID && slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Name == i.Name })
	})
}
