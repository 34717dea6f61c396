package podstatus

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions returns the conditions the agent owns, followed by the ones others
// wrote, which are kept as they are.
func conditions(in *Input, st *corev1.PodStatus) []corev1.PodCondition {
	ready := containersReady(st)
	own := []corev1.PodCondition{
		sandboxReady(in),
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		podReady(in, ready),
		ready,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	if st.Phase == corev1.PodSucceeded {
		own[1].Reason = reasonCompleted
	}
	for i := range own {
		stamp(in, &own[i])
	}
	for _, c := range in.others() {
		if !slices.ContainsFunc(own, func(o corev1.PodCondition) bool { return o.Type == c.Type }) {
			own = append(own, c)
		}
	}
	return own
}

const (
	reasonCompleted = "PodCompleted"
	reasonFailed    = "PodFailed"
)

// stamp sets the times and the generation: the transition time moves only when the
// status does.
func stamp(in *Input, c *corev1.PodCondition) {
	c.ObservedGeneration = in.Pod.Generation
	c.LastTransitionTime = metav1.NewTime(in.Now)
	if old := condition(in.Previous, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
}

func condition(st *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	if st == nil {
		return nil
	}
	for i := range st.Conditions {
		if st.Conditions[i].Type == kind {
			return &st.Conditions[i]
		}
	}
	return nil
}

func sandboxReady(in *Input) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if in.SandboxProblem != "" {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "PodSandboxNotReady", in.SandboxProblem
	}
	return c
}

func containersReady(st *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	switch st.Phase {
	case corev1.PodSucceeded:
		c.Reason = reasonCompleted
		return c
	case corev1.PodFailed:
		c.Reason = reasonFailed
		return c
	}
	var unready []string
	for i := range st.ContainerStatuses {
		if !st.ContainerStatuses[i].Ready {
			unready = append(unready, st.ContainerStatuses[i].Name)
		}
	}
	if len(unready) == 0 {
		c.Status = corev1.ConditionTrue
		return c
	}
	c.Reason = "ContainersNotReady"
	c.Message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	return c
}

// podReady adds the readiness gates, which are conditions others write.
func podReady(in *Input, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if containers.Status != corev1.ConditionTrue {
		return c
	}
	var unmet []string
	for _, gate := range in.Pod.Spec.ReadinessGates {
		got := condition(&in.Pod.Status, gate.ConditionType)
		switch {
		case got == nil:
			unmet = append(unmet, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case got.Status != corev1.ConditionTrue:
			unmet = append(unmet, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, got.Status))
		}
	}
	if len(unmet) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(unmet, ", ")
	}
	return c
}
