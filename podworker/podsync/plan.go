package podsync

import (
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
	// Started has the ids of containers whose startup probe has passed as far as the
	// last status of the pod knows: it counts where the prober is undecided, as after
	// a restart of the agent.
	Started map[string]bool
	// FailedStarts has the ids of created containers whose start failed.
	FailedStarts map[string]bool
	// Promised has the ids of containers that were stopped so that they start again, as
	// for a failed probe or a new sandbox. They do so however they ended, unless their
	// policy is Never.
	Promised map[string]bool
	// Actuated has what running containers were last given of the node, by id, with the
	// limits of the pod as a whole where a container has none. One that is missing was
	// given what the pod asks for.
	Actuated map[string]corev1.ResourceRequirements
	// ActuatedPod is what the pod as a whole was last given of the node; nil: what it
	// asks for.
	ActuatedPod *corev1.ResourceRequirements
	// MaxBackoff is the longest crash back-off; 0: 5 minutes.
	MaxBackoff time.Duration
	// KeepDead is how many dead runs of each container stay, for their logs; 0: one.
	KeepDead int
	// DeadAge is how old any other dead run is before it goes; 0: any age.
	DeadAge time.Duration
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
	if p.restartAll() {
		return p.out
	}
	p.resizePod()
	p.ephemeral()
	if p.initialise() {
		p.regular()
	}
	p.strays()
	p.collect(p.out.SandboxID)
	return p.out
}

// planner carries a plan while it is made.
type planner struct {
	pod     *corev1.Pod
	seen    *podstatus.Observed
	in      Inputs
	backoff backoff
	out     Actions
}

// active returns the newest run of a container in the sandbox that is kept, nil if
// there is none.
func (p *planner) active(name string) *podstatus.Instance {
	for i := range p.seen.Containers {
		if run := &p.seen.Containers[i]; run.Name == name && run.SandboxID == p.out.SandboxID {
			return run
		}
	}
	return nil
}

// replaceSandbox plans for a pod without a good sandbox: everything in the old ones
// is stopped, and whatever has not ended for good starts in a new one, which for a
// pod with init containers is the first of these.
func (p *planner) replaceSandbox() {
	p.out.KillPod = len(p.seen.Sandboxes) > 0 || p.seen.Running()
	ran := p.ran(func(podstatus.Instance) bool { return true })
	if p.pod.DeletionTimestamp != nil || p.out.Attempt > 0 && p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever && ran {
		return
	}
	starts := p.unfinished()
	if len(starts) == 0 && p.ran(func(run podstatus.Instance) bool { return isRegular(p.pod, run.Name) }) {
		return
	}
	if len(p.pod.Spec.InitContainers) > 0 {
		starts = []*corev1.Container{&p.pod.Spec.InitContainers[0]}
	}
	for _, c := range starts {
		p.restart(c, p.seen.Newest(c.Name))
	}
	p.out.NewSandbox = true
	if len(p.seen.Sandboxes) > 0 { // the newest stays, for the number of its attempt
		p.collect(p.seen.Sandboxes[0].ID)
	}
}

// ran reports whether a container that matches was started in any sandbox.
func (p *planner) ran(match func(podstatus.Instance) bool) bool {
	for _, run := range p.seen.Containers {
		if run.State != podstatus.StateCreated && match(run) {
			return true
		}
	}
	return false
}

// unfinished returns the containers that a new sandbox is to run: all but those that
// have succeeded and are only restarted on failure.
func (p *planner) unfinished() []*corev1.Container {
	out := make([]*corev1.Container, 0, len(p.pod.Spec.Containers))
	for i := range p.pod.Spec.Containers {
		c := &p.pod.Spec.Containers[i]
		policy := p.pod.Spec.RestartPolicy
		if c.RestartPolicy != nil {
			policy = corev1.RestartPolicy(*c.RestartPolicy)
		}
		if run := p.seen.Newest(c.Name); run != nil && policy == corev1.RestartPolicyOnFailure && succeeded(run) && !p.in.Promised[run.ID] {
			continue
		}
		out = append(out, c)
	}
	return out
}

func succeeded(run *podstatus.Instance) bool {
	return run.State == podstatus.StateExited && run.ExitCode == 0 && run.Reason != reasonOOM
}

// stop plans the end of a run.
func (p *planner) stop(run *podstatus.Instance, message string) {
	p.out.Stop = append(p.out.Stop, Stop{Name: run.Name, ID: run.ID, Message: message})
}

// begin plans the start of a container, of which a created run is started as it is.
func (p *planner) begin(c *corev1.Container, run *podstatus.Instance) bool {
	if run != nil && run.State == podstatus.StateCreated {
		return p.created(c, run)
	}
	return p.restart(c, run)
}

// created plans for a container that was created but not started, as a crash of the
// agent leaves it. A runtime may take a while to show that a failed start ended the
// container; until then a second one would be one too many.
func (p *planner) created(c *corev1.Container, run *podstatus.Instance) bool {
	if p.pod.DeletionTimestamp != nil {
		return false
	}
	patience, over := p.due(run.CreatedAt, createdPatience)
	switch {
	case run.SandboxID != p.out.SandboxID, run.Hash != podspec.ContainerHash(c):
		return p.restart(c, run)
	case !p.in.FailedStarts[run.ID]:
		p.out.Start = append(p.out.Start, Start{Name: c.Name, Kind: kindOf(p.pod, c.Name), ID: run.ID, Attempt: attemptOf(run)})
	case !over:
		p.out.Wait = append(p.out.Wait, Wait{Name: c.Name, Until: patience, Reason: notStarted()})
	default:
		return p.restart(c, run)
	}
	return true
}

// notStarted is what the status of a container shows whose start failed.
func notStarted() podstatus.Waiting {
	return podstatus.Waiting{Reason: reasonRunContainer, Message: "the container could not be started"}
}

// restart plans a new run of a container, run being the last one, if any, and
// reports whether there will be one. An edit of the container starts its back-off
// anew.
func (p *planner) restart(c *corev1.Container, run *podstatus.Instance) bool {
	if p.pod.DeletionTimestamp != nil {
		return false
	}
	start := Start{Name: c.Name, Kind: kindOf(p.pod, c.Name)}
	if run == nil {
		start.First = true
		p.out.Start = append(p.out.Start, start)
		return true
	}
	start.Attempt = attemptOf(run) + 1
	if run.State == podstatus.StateExited && !p.edited(c, run) {
		wait, step := p.backoff.next(run)
		if until, over := p.due(run.FinishedAt, wait); !over {
			p.out.Wait = append(p.out.Wait, Wait{Name: c.Name, Until: until, Reason: crashLoop(p.pod, c, wait)})
			return true
		}
		start.Backoff = step
	}
	p.out.Start = append(p.out.Start, start)
	return true
}

// edited reports whether a container asks for something else than its last run was
// made from.
func (p *planner) edited(c *corev1.Container, run *podstatus.Instance) bool {
	if run.Hash != "" && run.Hash != podspec.ContainerHash(c) {
		return true
	}
	given, known := p.in.Actuated[run.ID]
	want := effective(p.pod.Spec.Resources, &c.Resources)
	return known && !sameResources(&given, &want)
}

func attemptOf(run *podstatus.Instance) uint32 { return uint32(max(run.RestartCount, 0)) }

// due returns when a wait that began at a time is over, and whether it is now. A
// beginning further ahead than the wait is long shows that the clock was set back:
// nobody knows how much of the wait is left, so it is over.
func (p *planner) due(began time.Time, wait time.Duration) (until time.Time, over bool) {
	until = began.Add(wait)
	return until, !p.in.Now.Before(until) || began.Sub(p.in.Now) > wait
}

// probe returns the result of a probe of a running container; where the prober does
// not know yet, that of the startup probe is the one last known.
func (p *planner) probe(run *podstatus.Instance, kind podstatus.Probe) podstatus.Result {
	r := podstatus.Undecided
	if p.in.Prober != nil {
		r = p.in.Prober.ProbeResult(run.ID, kind)
	}
	if r == podstatus.Undecided && kind == podstatus.Startup && p.in.Started[run.ID] {
		return podstatus.Success
	}
	return r
}
