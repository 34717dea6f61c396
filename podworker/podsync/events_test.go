package podsync_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// fixed answers every resize the same.
type fixed string

func (f fixed) Resize(context.Context, *corev1.Pod, *corev1.Pod) (reason, message string) {
	return string(f), "no room"
}

// noCgroups can make no cgroup.
type noCgroups struct{}

func (noCgroups) EnsurePod(context.Context, *corev1.Pod) error { return errors.New("no controller") }
func (noCgroups) RemovePod(context.Context, types.UID) error   { return nil }

// stage is one life of a pod in which something is told.
type stage struct {
	reason string
	// config and pod edit what the agent and the pod are like.
	config func(c *podsync.Config)
	pod    func(pod *corev1.Pod)
	// faults are there from the beginning.
	faults map[string]runtimetest.Fault
	lives  []runtimetest.Life
	// then happens when the pod runs.
	then func(m *machine, a *agent, pod *corev1.Pod)
}

func resized(m *machine, a *agent, pod *corev1.Pod) {
	next := pod.DeepCopy()
	next.Spec.Containers[0].Resources = cpu("200m")
	a.add(next)
}

func ofAPI(pod *corev1.Pod) {
	pod.Annotations = nil
	pod.Spec.Containers[0].Resources = cpu("100m")
}

func withHook(hook corev1.Lifecycle) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Lifecycle = &hook }
}

// TestEveryEventIsTold has each kind of event of this package told by a pod that gives
// reason to it.
func TestEveryEventIsTold(t *testing.T) {
	lost := runtimetest.Fault{Err: status.Error(codes.Unavailable, "lost")}
	failing := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}
	remove := func(_ *machine, a *agent, pod *corev1.Pod) { a.remove(pod) }
	stages := []stage{
		{reason: "Created"},
		{reason: "Started"},
		{reason: "Killing", then: remove},
		{reason: "BackOff", lives: []runtimetest.Life{runtimetest.Exits(0, 1)}},
		{reason: "Failed", faults: map[string]runtimetest.Fault{"CreateContainer": lost}},
		{reason: "FailedPostStartHook", faults: map[string]runtimetest.Fault{"ExecSync": lost}, pod: withHook(corev1.Lifecycle{PostStart: failing})},
		{reason: "FailedPreStopHook", faults: map[string]runtimetest.Fault{"ExecSync": lost}, pod: withHook(corev1.Lifecycle{PreStop: failing}), then: remove},
		{reason: "SandboxChanged", then: func(m *machine, a *agent, _ *corev1.Pod) { (&teller{machine: m}).killSandboxes() }},
		{reason: "FailedCreatePodSandBox", faults: map[string]runtimetest.Fault{"RunPodSandbox": lost}},
		{reason: "FailedPodSandBoxStatus", faults: map[string]runtimetest.Fault{"PodSandboxStatus": lost}},
		{reason: "NetworkNotReady"},
		{reason: "FailedCreatePodContainer", config: func(c *podsync.Config) { c.Parts.PodCgroups = noCgroups{} }},
		{reason: "FailedKillPod", faults: map[string]runtimetest.Fault{"StopPodSandbox": lost}, then: remove},
		{reason: "FailedSync", then: func(m *machine, a *agent, pod *corev1.Pod) {
			m.Inject("ListPodSandbox", runtimetest.Fault{Err: lost.Err, Match: byUIDOnly})
			a.pool.Wake(pod.UID)
		}},
		{reason: "DeadlineExceeded", pod: func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(3)) }},
		{reason: "DNSConfigForming", pod: func(pod *corev1.Pod) {
			pod.Spec.DNSPolicy = corev1.DNSNone
			pod.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}}
		}},
		{reason: "MissingClusterDNS", pod: func(pod *corev1.Pod) { pod.Spec.DNSPolicy = corev1.DNSClusterFirst }},
		{reason: "ResizeStarted", pod: ofAPI, then: resized},
		{reason: "ResizeCompleted", pod: ofAPI, then: resized},
		{reason: "ResizeDeferred", pod: ofAPI, then: resized, config: func(c *podsync.Config) { c.Parts.Resizer = fixed(corev1.PodReasonDeferred) }},
		{reason: "ResizeInfeasible", pod: ofAPI, then: resized, config: func(c *podsync.Config) { c.Parts.Resizer = fixed(corev1.PodReasonInfeasible) }},
		{reason: "ResizeError", pod: ofAPI, then: resized, faults: map[string]runtimetest.Fault{"UpdateContainerResources": lost}},
		{reason: "UnsupportedField", pod: func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "closed"}} }},
	}
	for i := range stages {
		t.Run(stages[i].reason, func(t *testing.T) { bubble(t, stages[i].play) })
	}
}

func (s *stage) play(m *machine) {
	if s.reason == "NetworkNotReady" {
		m.SetNetworkProblem("cni plugin not initialized")
	}
	if s.lives != nil {
		m.SetLives("app", s.lives...)
	}
	for rpc, fault := range s.faults {
		m.Inject(rpc, fault)
	}
	var edits []func(*podsync.Config)
	if s.config != nil {
		edits = append(edits, s.config)
	}
	a := m.agent(m.t, edits...)
	pod := newPod("web")
	if s.pod != nil {
		s.pod(pod)
	}
	a.add(pod)
	pass(10 * time.Second)
	if s.then != nil {
		s.then(m, a, pod)
	}
	pass(30 * time.Second)
	if got := a.told(s.reason); len(got) == 0 {
		m.t.Errorf("events are %q, want one with reason %s", a.events, s.reason)
	}
	m.ClearFaults()
}
