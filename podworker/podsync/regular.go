package podsync

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// regular plans for the regular containers of a pod that is initialised. When none of
// them runs or ever will, the pod has ended, and its sidecars with it.
func (p *planner) regular() {
	alive := false
	for i := range p.pod.Spec.Containers {
		alive = p.container(&p.pod.Spec.Containers[i]) || alive
	}
	if alive {
		return
	}
	p.out.KillPod = true
	p.out.Resize = nil
	p.out.Start = slices.DeleteFunc(p.out.Start, func(s Start) bool { return s.Kind == Sidecar })
	p.out.Wait = slices.DeleteFunc(p.out.Wait, func(w Wait) bool { return kindOf(p.pod, w.Name) == Sidecar })
}

// container plans for one regular container and reports whether it runs or will.
func (p *planner) container(c *corev1.Container) bool {
	run := p.seen.Newest(c.Name)
	if run == nil {
		return p.restart(c, nil)
	}
	switch run.State {
	case podstatus.StateRunning:
		p.running(c, run)
		return true
	case podstatus.StateCreated:
		return p.created(c, run)
	case podstatus.StateUnknown:
		p.stop(run, unknownMessage)
		if podstatus.RestartsAfterKill(p.pod, c) {
			p.restart(c, run)
		}
		return true
	case podstatus.StateExited:
		if podstatus.RestartsContainer(p.pod, c, run.ExitCode) || p.in.Promised[run.ID] && podstatus.RestartsAfterKill(p.pod, c) {
			return p.restart(c, run)
		}
	}
	return false
}

// unknownMessage says why a container is stopped whose state the runtime lost: it may
// run, and a second one would be one too many.
const unknownMessage = "Container is in \"unknown\" state, try killing it before restart"

// running keeps a container or stops it. A failed probe only stops it here: when it
// has ended, it is restarted like one that failed by itself, also if it ended with 0.
func (p *planner) running(c *corev1.Container, run *podstatus.Instance) {
	switch {
	case run.SandboxID != p.out.SandboxID:
		p.stop(run, fmt.Sprintf("Container %s runs in an old sandbox, will be restarted", c.Name))
		p.restart(c, run)
	case run.Hash != "" && run.Hash != podspec.ContainerHash(c):
		p.stop(run, fmt.Sprintf("Container %s definition changed, will be restarted", c.Name))
		p.restart(c, run)
	case p.failed(c, run, podstatus.Liveness), p.failed(c, run, podstatus.Startup):
	default:
		p.resize(c, run)
	}
}

// failed stops a container whose probe failed.
func (p *planner) failed(c *corev1.Container, run *podstatus.Instance, kind podstatus.Probe) bool {
	if probeOf(c, kind) == nil || p.probe(run, kind) != podstatus.Failure {
		return false
	}
	message := fmt.Sprintf("Container %s failed %s probe", run.Name, kind)
	if k := kindOf(p.pod, c.Name); k == Sidecar {
		message = fmt.Sprintf("Init container %s failed %s probe", run.Name, kind)
	} else if podstatus.RestartsAfterKill(p.pod, c) {
		message += ", will be restarted"
	}
	p.out.Stop = append(p.out.Stop, Stop{Name: run.Name, ID: run.ID, Probe: kind, Failed: true, Message: message})
	return true
}

func probeOf(c *corev1.Container, kind podstatus.Probe) *corev1.Probe {
	switch kind {
	case podstatus.Liveness:
		return c.LivenessProbe
	case podstatus.Startup:
		return c.StartupProbe
	case podstatus.Readiness:
		return c.ReadinessProbe
	}
	return nil
}

// ephemeral plans for the ephemeral containers: each is started once, whatever else
// the pod is at, and never again. One that could not be started keeps saying so.
func (p *planner) ephemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&p.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		run := p.seen.Newest(c.Name)
		switch {
		case run == nil:
			p.restart(c, nil)
		case run.State != podstatus.StateCreated:
		case p.in.FailedStarts[run.ID]:
			p.out.Wait = append(p.out.Wait, Wait{Name: c.Name, Reason: notStarted()})
		case run.SandboxID == p.out.SandboxID:
			p.created(c, run)
		}
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
