package podsync

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// resize plans for a running container that has other resources than it is to have:
// they are changed while it runs, unless its resize policy asks for a restart.
func (p *planner) resize(c *corev1.Container, run *podstatus.Instance) {
	given, known := p.in.Actuated[run.ID]
	want := effective(p.pod.Spec.Resources, &c.Resources)
	if !known || sameResources(&given, &want) {
		return
	}
	if needsRestart(c, &given, &want) {
		p.stop(run, fmt.Sprintf("Container %s resize requires restart, will be restarted", c.Name))
		p.restart(c, run)
		return
	}
	p.out.Resize = append(p.out.Resize, Resize{Name: c.Name, ID: run.ID, From: given, To: want})
}

// resizePod plans for a pod that has other resources as a whole than it is to have.
func (p *planner) resizePod() {
	if had := p.in.ActuatedPod; had != nil {
		p.out.ResizePod = &Resize{From: *had, To: *orNone(p.pod.Spec.Resources)}
	}
}

// needsRestart reports whether a resource that changes may only change with a restart.
func needsRestart(c *corev1.Container, given, want *corev1.ResourceRequirements) bool {
	for _, policy := range c.ResizePolicy {
		if policy.RestartPolicy == corev1.RestartContainer && !sameResource(policy.ResourceName, given, want) {
			return true
		}
	}
	return false
}

// sameResources compares what can be changed while a container runs: CPU and memory.
func sameResources(a, b *corev1.ResourceRequirements) bool {
	return sameResource(corev1.ResourceCPU, a, b) && sameResource(corev1.ResourceMemory, a, b)
}

func sameResource(name corev1.ResourceName, a, b *corev1.ResourceRequirements) bool {
	return sameQuantity(name, a.Requests, b.Requests) && sameQuantity(name, a.Limits, b.Limits)
}

func sameQuantity(name corev1.ResourceName, a, b corev1.ResourceList) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && x.Cmp(y) == 0
}
