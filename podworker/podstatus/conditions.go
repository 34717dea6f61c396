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
	ready := containersReady(in, st)
	own := []corev1.PodCondition{
		sandboxReady(in),
		initializedCondition(in, st),
		podReady(in, ready),
		ready,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	own = append(own, in.Resize...)
	own = append(own, restartingAll(in, st)...)
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

// initializedCondition says whether all init containers are done and all sidecars have
// started. Once True it stays, as when every container starts anew.
func initializedCondition(in *Input, st *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if st.Phase == corev1.PodSucceeded {
		c.Reason = reasonCompleted
		return c
	}
	if old := condition(in.Previous, c.Type); anyStarted(st.ContainerStatuses) || old != nil && old.Status == corev1.ConditionTrue {
		return c
	}
	var incomplete []string
	for i := range st.InitContainerStatuses {
		s := &st.InitContainerStatuses[i]
		if IsSidecar(&in.Pod.Spec.InitContainers[i]) && !*s.Started || !IsSidecar(&in.Pod.Spec.InitContainers[i]) && !s.Ready {
			incomplete = append(incomplete, s.Name)
		}
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

// restartingAll is the condition of a pod whose containers may all be removed to start
// anew: True while that goes on. Other pods do not have it.
func restartingAll(in *Input, st *corev1.PodStatus) []corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse}
	switch {
	case !in.RestartingAll && !mayRestartAll(in.Pod):
		return nil
	case st.Phase == corev1.PodSucceeded:
		c.Reason = reasonCompleted
	case st.Phase == corev1.PodFailed:
		c.Reason = reasonFailed
	case in.RestartingAll:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "RestartAllContainersStarted", "container exited with restart policy rule"
	}
	return []corev1.PodCondition{c}
}

// mayRestartAll reports whether any container has a rule that restarts all.
func mayRestartAll(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
				return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
			}) {
				return true
			}
		}
	}
	return false
}

func containersReady(in *Input, st *corev1.PodStatus) corev1.PodCondition {
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
	for i := range st.InitContainerStatuses {
		if IsSidecar(&in.Pod.Spec.InitContainers[i]) && !st.InitContainerStatuses[i].Ready {
			unready = append(unready, st.InitContainerStatuses[i].Name)
		}
	}
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
	c.Message = fmt.Sprintf("containers with unready status: %s", unready)
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
