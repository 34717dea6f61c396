package node

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/runtime"
)

// follow takes in a new status of a pod. ending says that the pod is going down.
func (p *probing) follow(pod *corev1.Pod, status *corev1.PodStatus, ending bool) {
	if p == nil {
		return
	}
	for _, c := range probedStatuses(status) {
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil {
				p.engine.Remove(bareID(t.ContainerID))
			}
		}
	}
	p.add(pod, status, ending)
}

// probedStatuses returns the statuses of all containers that may have probes: sidecars
// are among the init containers.
func probedStatuses(status *corev1.PodStatus) []corev1.ContainerStatus {
	return slices.Concat(status.InitContainerStatuses, status.ContainerStatuses)
}

// add begins to probe the containers that run according to a status.
func (p *probing) add(pod *corev1.Pod, status *corev1.PodStatus, ending bool) {
	seen := *pod
	seen.Status = *status
	containers, err := p.build(&seen, probes.PodConfig{Clients: p.clients})
	for i := range containers {
		c := &containers[i]
		c.Seed, c.Terminating = seedOf(status, c.Ref.Name), ending
		err = errors.Join(err, p.begin(c))
	}
	if p.isNew(pod.UID, err) {
		p.log.Warn("some probes cannot be made", "pod", fullName(pod), "uid", string(pod.UID), "err", err)
	}
}

// begin begins to probe a container, unless it is probed already. One that ran before
// this process and is not known to be ready is asked at once: it may have been ready
// by the word of another kubelet.
func (p *probing) begin(c *probes.Container) error {
	known := p.knows(c.Ref.ID)
	p.mu.Lock()
	p.followed[c.Ref.ID] = &followed{pod: c.Ref.UID}
	p.mu.Unlock()
	if err := p.engine.Add(*c); err != nil {
		p.removed(c.Ref)
		return err
	}
	if !known && c.Seed.Readiness != probes.Success && c.StartedAt.Before(p.began) {
		p.engine.Trigger(c.Ref.ID, probes.Startup)
		p.engine.Trigger(c.Ref.ID, probes.Readiness)
	}
	return nil
}

// isNew reports whether there is an error about the probes of a pod that differs from
// the one before.
func (p *probing) isNew(uid types.UID, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.faults, uid)
		return false
	}
	last := p.faults[uid]
	p.faults[uid] = err.Error()
	return last != err.Error()
}

// seedOf returns the values of probes that the status of a container stands for. Of
// a container that has just started they are those it begins with. If an earlier
// process told that it was ready, it stays so until its probe says otherwise.
func seedOf(status *corev1.PodStatus, container string) *probes.Values {
	seed := &probes.Values{Startup: probes.Unknown, Liveness: probes.Success, Readiness: probes.Failure}
	for _, c := range probedStatuses(status) {
		if c.Name != container {
			continue
		}
		if c.Started != nil && *c.Started {
			seed.Startup = probes.Success
		}
		if c.Ready {
			seed.Readiness = probes.Success
		}
	}
	return seed
}

// goneAfter is how many looks in a row have to miss a container before it counts as
// gone: one that has just started may be newer than the look.
const goneAfter = 2

// watch takes in what the runtime shows: probes of containers that have ended end,
// without waiting for the pod's worker.
func (p *probing) watch(snap *runtime.Snapshot) {
	if p == nil {
		return
	}
	for _, id := range p.ended(snap) {
		p.engine.Remove(id)
	}
}

// ended returns the containers that are probed and do not run any more.
func (p *probing) ended(snap *runtime.Snapshot) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ended []string
	for id, f := range p.followed {
		switch state, listed := stateOf(snap.Pods[f.pod], id); {
		case listed && state == runtimeapi.ContainerState_CONTAINER_RUNNING:
			f.missed = 0
			continue
		case listed && state == runtimeapi.ContainerState_CONTAINER_EXITED:
			f.missed = goneAfter
		default:
			f.missed++
		}
		if f.missed >= goneAfter {
			ended = append(ended, id)
			p.forgetLocked(id)
		}
	}
	return ended
}

// stateOf returns the state of a container of a pod, false if the pod has none of this id.
func stateOf(pod *runtime.Pod, id string) (runtimeapi.ContainerState, bool) {
	if pod == nil {
		return 0, false
	}
	for _, c := range pod.Containers {
		if c.GetId() == id {
			return c.GetState(), true
		}
	}
	return 0, false
}

// discover begins to probe a pod's containers that run according to the runtime, and
// of which the pod's status does not tell yet: its worker may be pulling the image of
// another one. The status has the address of the pod. A container with a postStart hook
// is left to its status, which shows it running when the hook has returned.
func (p *probing) discover(pod *corev1.Pod, status *corev1.PodStatus, seen *runtime.Pod) {
	if p == nil || seen == nil || !wantsProbes(&pod.Spec) {
		return
	}
	statuses := probedStatuses(status)
	for _, c := range seen.Containers {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || p.knows(c.GetId()) || hasPostStart(&pod.Spec, c.GetMetadata().GetName()) {
			continue
		}
		at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool {
			return s.Name == c.GetMetadata().GetName()
		})
		if at < 0 {
			continue
		}
		one := *status
		one.InitContainerStatuses = nil
		one.ContainerStatuses = []corev1.ContainerStatus{runningAs(&statuses[at], c)}
		p.add(pod, &one, false)
	}
}

// knows reports whether a container is probed.
func (p *probing) knows(id string) bool {
	_, ok := p.engine.Values(id)
	return ok
}

// wantsProbes reports whether any container of a pod has a probe.
func wantsProbes(spec *corev1.PodSpec) bool {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list { // a Container is too large to be copied each second
			if c := &list[i]; c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil {
				return true
			}
		}
	}
	return false
}

// hasPostStart reports whether a container has a postStart hook.
func hasPostStart(spec *corev1.PodSpec, name string) bool {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if c := &list[i]; c.Name == name {
				return c.Lifecycle != nil && c.Lifecycle.PostStart != nil
			}
		}
	}
	return false
}

// runningAs returns the status of a container that the runtime shows running. What
// was told of the same container before holds on.
func runningAs(last *corev1.ContainerStatus, c *runtimeapi.Container) corev1.ContainerStatus {
	st := corev1.ContainerStatus{Name: last.Name, ContainerID: c.GetId()}
	created := metav1.NewTime(time.Unix(0, c.GetCreatedAt()))
	st.State.Running = &corev1.ContainerStateRunning{StartedAt: created}
	if bareID(last.ContainerID) == c.GetId() {
		st.Started, st.Ready = last.Started, last.Ready
	}
	return st
}

// bareID returns a container's id without the name of the runtime.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}
