package probes

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// seniority is how much older than the agent a container must be to count as one
// that an earlier life of the agent has started: clocks and start-ups are not
// exact to the second. The kubelet allows as much.
const seniority = 10 * time.Second

// PodConfig says what FromPod needs besides the pod.
type PodConfig struct {
	// Clients are used by gRPC and exec probes.
	Clients Clients
	// AgentStart is when the agent started. Containers that are at least ten seconds
	// older keep the values that the status of the pod has for them, until they are
	// probed. Zero means that none is older.
	AgentStart time.Time
}

// FromPod returns the containers of pod that have probes and run, according to the
// status of pod: regular containers, and init containers that restart always.
//
// A probe that cannot be built is in the result as one that never gets an answer,
// and in the error, which names pod, container and field. A container whose probes
// need the address of a pod that has none yet is left out, and in the error too
// (ErrNoAddress).
func FromPod(pod *corev1.Pod, cfg PodConfig) ([]Container, error) {
	var out []Container
	var errs []error
	for _, spec := range probed(pod) {
		status := statusOf(pod, spec.Name)
		if status == nil || status.State.Running == nil {
			continue
		}
		c, err := cfg.container(pod, spec, status)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: container %s: %w", pod.Namespace, pod.Name, spec.Name, err))
		}
		if !errors.Is(err, ErrNoAddress) {
			out = append(out, c)
		}
	}
	return out, errors.Join(errs...)
}

// probed returns the containers of pod that may be probed and want to be.
func probed(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	add := func(c *corev1.Container) {
		if c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil {
			out = append(out, c)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return out
}

// statusOf returns the status of a container, nil when there is none.
func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func (cfg PodConfig) container(pod *corev1.Pod, spec *corev1.Container, status *corev1.ContainerStatus) (Container, error) {
	id := status.ContainerID
	if _, bare, ok := strings.Cut(id, "://"); ok {
		id = bare
	}
	c := Container{
		Ref:         Ref{ID: id, Name: spec.Name, Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID},
		StartedAt:   status.State.Running.StartedAt.Time,
		Terminating: pod.DeletionTimestamp != nil,
	}
	if cfg.AgentStart.Sub(c.StartedAt) > seniority && !c.StartedAt.IsZero() {
		c.Seed = seedOf(status)
	}
	t := Target{
		Host:        pod.Status.PodIP,
		ContainerID: id,
		Ports:       spec.Ports,
		Env:         spec.Env,
		Clients:     cfg.Clients,
	}
	var errs []error
	build := func(k Kind, p *corev1.Probe) *Probe {
		if p == nil {
			return nil
		}
		built, err := FromSpec(k, p, t)
		if err != nil {
			errs = append(errs, err)
			return &Probe{Prober: Broken(err)}
		}
		return &built
	}
	c.Startup = build(Startup, spec.StartupProbe)
	c.Liveness = build(Liveness, spec.LivenessProbe)
	c.Readiness = build(Readiness, spec.ReadinessProbe)
	return c, errors.Join(errs...)
}

// seedOf returns the values that a status stands for. A container that has not
// started is not one whose startup probe has failed.
func seedOf(status *corev1.ContainerStatus) *Values {
	seed := Values{Startup: Unknown, Liveness: Success, Readiness: Failure}
	if status.Started != nil && *status.Started {
		seed.Startup = Success
	}
	if status.Ready {
		seed.Readiness = Success
	}
	return &seed
}
