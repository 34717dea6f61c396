package podsync

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Inputs is what a plan depends on beside the pod and the runtime.
type Inputs struct {
	// Now is the time of the observation.
	Now time.Time
	// Prober has the results of probes; nil: there are none.
	Prober podstatus.Prober
	// FailedStarts has the ids of created containers whose start failed.
	FailedStarts map[string]bool
	// MaxBackoff is the longest crash back-off; 0: 5 minutes.
	MaxBackoff time.Duration
}

// createdPatience is how long a container whose start failed is given to show
// that it ended, before it is replaced.
const createdPatience = time.Minute

// Plan decides what to do for a pod. It is pure: the same arguments give the same
// actions, and nothing is changed. seen is newest first, see
// [podstatus.Observed.Sort].
func Plan(pod *corev1.Pod, seen *podstatus.Observed, in Inputs) Actions {
	p := planner{pod: pod, seen: seen, in: in, backoff: backoff{limit: in.MaxBackoff}}
	if p.backoff.limit <= 0 {
		p.backoff.limit = maxBackoff
	}
	p.out.SandboxProblem, p.out.Attempt = sandboxProblem(pod, seen)
	if p.out.SandboxProblem != "" {
		p.replaceSandbox()
		return p.out
	}
	p.out.SandboxID = seen.Sandboxes[0].ID
	for i := range pod.Spec.Containers {
		p.container(&pod.Spec.Containers[i])
	}
	p.strays()
	p.finish()
	p.collect(p.out.SandboxID)
	return p.out
}

// planner carries a plan while it is made.
type planner struct {
	pod     *corev1.Pod
	seen    *podstatus.Observed
	in      Inputs
	backoff backoff
	keep    int
	out     Actions
}

// replaceSandbox plans for a pod without a good sandbox: everything in the old ones
// is stopped, and whatever has not ended for good starts in a new one.
func (p *planner) replaceSandbox() {
	p.out.KillPod = len(p.seen.Sandboxes) > 0 || p.seen.Running()
	ran := slices.ContainsFunc(p.seen.Containers, func(c podstatus.Instance) bool { return c.State != podstatus.StateCreated })
	if p.pod.DeletionTimestamp != nil || p.out.Attempt > 0 && p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever && ran {
		return
	}
	for i := range p.pod.Spec.Containers {
		c := &p.pod.Spec.Containers[i]
		run := p.seen.Newest(c.Name)
		if run != nil && p.pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && succeeded(run) {
			continue
		}
		p.restart(c, run)
	}
	if len(p.out.Start)+len(p.out.Wait) == 0 && ran {
		return
	}
	p.out.NewSandbox = true
	if len(p.seen.Sandboxes) > 0 { // the newest stays, for the number of its attempt
		p.collect(p.seen.Sandboxes[0].ID)
	}
}

func succeeded(run *podstatus.Instance) bool {
	return run.State == podstatus.StateExited && run.ExitCode == 0
}

// container plans for one container of a pod with a good sandbox.
func (p *planner) container(c *corev1.Container) {
	run := p.seen.Newest(c.Name)
	if run == nil {
		p.restart(c, nil)
		return
	}
	switch run.State {
	case podstatus.StateRunning:
		p.running(c, run)
	case podstatus.StateCreated:
		p.created(c, run)
	case podstatus.StateUnknown:
		p.stop(run, "Container is in \"unknown\" state, try killing it before restart")
		if p.pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			p.restart(c, run)
		}
	case podstatus.StateExited:
		if podstatus.Restarts(p.pod.Spec.RestartPolicy, run.ExitCode) {
			p.restart(c, run)
		}
	}
}

// running keeps a container or stops it. A failed probe only stops it here: when it
// has ended, it is restarted like one that ended by itself.
func (p *planner) running(c *corev1.Container, run *podstatus.Instance) {
	switch {
	case run.SandboxID != p.out.SandboxID:
		p.stop(run, fmt.Sprintf("Container %s runs in an old sandbox, will be restarted", c.Name))
		p.restart(c, run)
	case run.Hash != "" && run.Hash != podspec.ContainerHash(c):
		p.stop(run, fmt.Sprintf("Container %s definition changed, will be restarted", c.Name))
		p.restart(c, run)
	case p.failed(c.LivenessProbe, run, podstatus.Liveness), p.failed(c.StartupProbe, run, podstatus.Startup):
	default:
		p.keep++
	}
}

// failed stops a container whose probe failed.
func (p *planner) failed(probe *corev1.Probe, run *podstatus.Instance, kind podstatus.Probe) bool {
	if probe == nil || p.in.Prober == nil || p.in.Prober.ProbeResult(run.ID, kind) != podstatus.Failure {
		return false
	}
	message := fmt.Sprintf("Container %s failed %s probe", run.Name, kind)
	if p.pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		message += ", will be restarted"
	}
	p.out.Stop = append(p.out.Stop, Stop{Name: run.Name, ID: run.ID, Probe: kind, Failed: true, Message: message})
	return true
}

func (p *planner) stop(run *podstatus.Instance, message string) {
	p.out.Stop = append(p.out.Stop, Stop{Name: run.Name, ID: run.ID, Message: message})
}

// created plans for a container that was created but not started, as a crash of the
// agent leaves it. A runtime may take a while to show that a failed start ended the
// container; until then a second one would be one too many.
func (p *planner) created(c *corev1.Container, run *podstatus.Instance) {
	patience, over := p.due(run.CreatedAt, createdPatience)
	switch {
	case run.SandboxID != p.out.SandboxID, run.Hash != podspec.ContainerHash(c):
		p.restart(c, run)
	case !p.in.FailedStarts[run.ID]:
		p.out.Start = append(p.out.Start, Start{Name: c.Name, ID: run.ID, Attempt: uint32(max(run.RestartCount, 0))})
	case !over:
		p.out.Wait = append(p.out.Wait, Wait{Name: c.Name, Until: patience, Reason: podstatus.Waiting{
			Reason: reasonRunContainer, Message: "the container could not be started",
		}})
	default:
		p.restart(c, run)
	}
}

// restart plans a new run of a container, run being the last one, if any. An edit
// of the container starts its back-off anew.
func (p *planner) restart(c *corev1.Container, run *podstatus.Instance) {
	if p.pod.DeletionTimestamp != nil {
		return
	}
	if run == nil {
		p.out.Start = append(p.out.Start, Start{Name: c.Name, First: true})
		return
	}
	start := Start{Name: c.Name, Attempt: uint32(max(run.RestartCount, 0)) + 1}
	if run.State == podstatus.StateExited && (run.Hash == "" || run.Hash == podspec.ContainerHash(c)) {
		wait, step := p.backoff.next(run)
		if until, over := p.due(run.FinishedAt, wait); !over {
			p.out.Wait = append(p.out.Wait, Wait{Name: c.Name, Until: until, Reason: p.crashLoop(c, wait)})
			return
		}
		start.Backoff = step
	}
	p.out.Start = append(p.out.Start, start)
}

// due returns when a wait that began at a time is over, and whether it is now. A
// beginning further ahead than the wait is long shows that the clock was set back:
// nobody knows how much of the wait is left, so it is over.
func (p *planner) due(began time.Time, wait time.Duration) (until time.Time, over bool) {
	until = began.Add(wait)
	return until, !p.in.Now.Before(until) || began.Sub(p.in.Now) > wait
}

func (p *planner) crashLoop(c *corev1.Container, wait time.Duration) podstatus.Waiting {
	return podstatus.Waiting{
		Reason:  reasonCrashLoop,
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", wait, c.Name, p.pod.Name, p.pod.Namespace, p.pod.UID),
	}
}

// strays stops runs that the pod does not ask for: of containers that have left its
// spec, and ones that a newer run of the same container has replaced.
func (p *planner) strays() {
	for i := range p.seen.Containers {
		run := &p.seen.Containers[i]
		if run.State != podstatus.StateRunning && run.State != podstatus.StateUnknown {
			continue
		}
		switch {
		case container(p.pod, run.Name) == nil:
			p.stop(run, fmt.Sprintf("Container %s is not in the spec of the pod", run.Name))
		case p.seen.Newest(run.Name) != run:
			p.stop(run, fmt.Sprintf("Container %s has a newer run", run.Name))
		}
	}
}

// finish stops the sandbox of a pod that has nothing left to run.
func (p *planner) finish() {
	if p.keep+len(p.out.Start)+len(p.out.Wait)+len(p.out.Stop) == 0 {
		p.out.KillPod = true
	}
}
