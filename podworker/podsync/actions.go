package podsync

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Actions is what has to be done for a pod, in the order of the fields. The zero
// value is nothing to do.
type Actions struct {
	// SandboxProblem says why the pod needs a new sandbox, empty if it has a good one.
	SandboxProblem string
	// KillPod stops every container and every sandbox first.
	KillPod bool
	// NewSandbox makes a sandbox, the Attempt-th.
	NewSandbox bool
	Attempt    uint32
	// SandboxID is the sandbox that is kept; empty if there is no good one.
	SandboxID string
	// RestartAll says that every container is stopped and removed because one of them
	// asked for it by its end; the pod then starts over in its sandbox.
	RestartAll bool
	// Stop are containers to stop, in parallel.
	Stop []Stop
	// Resize are running containers that get more or less of the node.
	Resize []Resize
	// ResizePod is what the pod as a whole gets, without name and ID; nil: what it has.
	ResizePod *Resize
	// Start are containers to start, one after the other.
	Start []Start
	// Wait are containers that have to wait before they start again.
	Wait []Wait
	// RemoveContainers are dead containers that nobody needs any more.
	RemoveContainers []Dead
	// RemoveSandboxes are sandboxes that are not the pod's any more, by id.
	RemoveSandboxes []string
}

// Stop is a running container that has to stop.
type Stop struct {
	Name, ID string
	// Probe is the probe that failed, if Failed.
	Probe  podstatus.Probe
	Failed bool
	// AtOnce leaves the container no time and runs no hook.
	AtOnce bool
	// Message says why.
	Message string
}

// Resize is a running container, or a pod, whose resources change.
type Resize struct {
	Name, ID string
	From, To corev1.ResourceRequirements
}

// Start is a container to be started.
type Start struct {
	Name string
	Kind Kind
	// ID names a container that was created but never started; empty: a new one is
	// created.
	ID string
	// Attempt is the number of the new run. First is true when the runtime knows of
	// no earlier one; the logs may.
	Attempt uint32
	First   bool
	// Backoff is the crash back-off to record with the run.
	Backoff time.Duration
}

// Wait is a container that must not start yet.
type Wait struct {
	Name string
	// Until is when it may start; zero: never.
	Until time.Time
	// Reason is what its status shows while it waits.
	Reason podstatus.Waiting
}

// Dead is a container to remove.
type Dead struct {
	Name, ID string
	Attempt  uint32
	// KeepLogs leaves the logs of the run: the number of the next one is known from them.
	KeepLogs bool
	// Backoff is the crash back-off of the next run, when the record of it goes with
	// this one.
	Backoff time.Duration
}

// Empty reports whether there is nothing to do now.
func (a *Actions) Empty() bool {
	return !a.KillPod && !a.NewSandbox && a.ResizePod == nil && len(a.Stop)+len(a.Resize)+len(a.Start)+len(a.RemoveContainers)+len(a.RemoveSandboxes) == 0
}

// repeats reports whether a would start or make again what last has just done.
func (a *Actions) repeats(last *Actions) bool {
	if a.NewSandbox && last.NewSandbox || a.KillPod && last.KillPod || a.RestartAll && last.RestartAll {
		return true
	}
	return slices.ContainsFunc(a.Start, func(s Start) bool {
		return slices.ContainsFunc(last.Start, func(l Start) bool { return l.Name == s.Name })
	})
}

// String prints one action per line, in the order in which they are done. The
// result ends in a newline unless there is nothing to do.
func (a Actions) String() string {
	var b strings.Builder
	if a.KillPod {
		fmt.Fprintf(&b, "kill pod: %s\n", a.killReason())
	}
	if a.RestartAll {
		b.WriteString("restart all containers\n")
	}
	if a.NewSandbox {
		fmt.Fprintf(&b, "run sandbox, attempt %d: %s\n", a.Attempt, a.SandboxProblem)
	}
	for _, s := range a.Stop {
		fmt.Fprintf(&b, "stop container %s (%s): %s\n", s.Name, s.ID, s.Message)
	}
	if a.ResizePod != nil {
		fmt.Fprintf(&b, "resize pod: %s\n", a.ResizePod.change())
	}
	for _, r := range a.Resize {
		fmt.Fprintf(&b, "resize container %s (%s): %s\n", r.Name, r.ID, r.change())
	}
	for _, s := range a.Start {
		b.WriteString(s.String())
	}
	for _, w := range a.Wait {
		if w.Until.IsZero() {
			fmt.Fprintf(&b, "let container %s be: %s\n", w.Name, w.Reason.Reason)
			continue
		}
		fmt.Fprintf(&b, "let container %s wait until %s: %s\n", w.Name, w.Until.UTC().Format(time.RFC3339), w.Reason.Reason)
	}
	for _, d := range a.RemoveContainers {
		fmt.Fprintf(&b, "remove container %s, attempt %d (%s)\n", d.Name, d.Attempt, d.ID)
	}
	for _, id := range a.RemoveSandboxes {
		fmt.Fprintf(&b, "remove sandbox %s\n", id)
	}
	return b.String()
}

// killReason says why the whole pod is stopped.
func (a *Actions) killReason() string {
	if a.SandboxProblem == "" {
		return "nothing is left to run"
	}
	return a.SandboxProblem
}

// change prints what changes, as in "cpu 100m/200m → 200m/200m": request and limit.
func (r *Resize) change() string {
	var parts []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if !sameResource(name, &r.From, &r.To) {
			parts = append(parts, fmt.Sprintf("%s %s → %s", name, pair(name, &r.From), pair(name, &r.To)))
		}
	}
	return strings.Join(parts, ", ")
}

func pair(name corev1.ResourceName, r *corev1.ResourceRequirements) string {
	request, limit := "-", "-"
	if q, ok := r.Requests[name]; ok {
		request = q.String()
	}
	if q, ok := r.Limits[name]; ok {
		limit = q.String()
	}
	return request + "/" + limit
}

// String prints the start of one container as a line.
func (s Start) String() string {
	if s.ID != "" {
		return fmt.Sprintf("start %s %s as created (%s)\n", s.Kind, s.Name, s.ID)
	}
	return fmt.Sprintf("start %s %s, attempt %d, then back off %s\n", s.Kind, s.Name, s.Attempt, s.Backoff)
}
