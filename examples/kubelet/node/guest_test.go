package node

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/admission"
)

// TestGuestLeavesTheMachineAlone: a node for one pod, beside another agent, sets no weights
// of all pods and removes neither cgroups nor images.
func TestGuestLeavesTheMachineAlone(t *testing.T) {
	a := &agent{helpers: helpers{cgroups: &podCgroups{guest: true}, pictures: &pictures{guest: true}}}
	if err := errors.Join(a.cgroups.setup(t.Context()), a.pictures.run(t.Context())); err != nil {
		t.Error(err)
	}
	a.weigh(t.Context())
	a.sweepCgroups(t.Context()) // all of it without any of what it would take
}

// TestWhoHoldsResources: pods that are admitted do, until they have ended.
func TestWhoHoldsResources(t *testing.T) {
	a := newAdmissions(func() admission.Node { return admission.Node{} }, func() bool { return false })
	ended, runs := &corev1.Pod{}, &corev1.Pod{}
	ended.UID, runs.UID = "ended", "runs"
	ended.Status.Phase, runs.Status.Phase = corev1.PodSucceeded, corev1.PodRunning
	a.ask(t.Context(), ended, true)
	if len(a.active()) != 0 || a.differ() {
		t.Error("a pod that has ended holds resources")
	}
	a.ask(t.Context(), runs, true)
	if len(a.active()) != 1 || !a.differ() || a.differ() {
		t.Errorf("%d pods hold resources, want one, and to be told of it once", len(a.active()))
	}
	a.release(func(uid types.UID) bool { return uid == "runs" })
	if len(a.active()) != 0 || !a.differ() {
		t.Error("the end of a pod gives nothing back")
	}
}

// TestRuntimeClassIsAskedForOnce: the containers of a pod are restarted while the API
// server is away.
func TestRuntimeClassIsAskedForOnce(t *testing.T) {
	away := false
	g := &grants{class: func(context.Context, string) (string, error) {
		if away {
			return "", errors.New("the API server is away")
		}
		return "kata-v3", nil
	}}
	class, pod := "kata", &corev1.Pod{}
	pod.UID, pod.Spec.RuntimeClassName = "u1", &class
	for range 2 {
		if got, err := g.of(t.Context(), pod); err != nil || got.Handler.Name != "kata-v3" {
			t.Errorf("handler is %q (%v), want kata-v3", got.Handler.Name, err)
		}
		away = true
	}
}
