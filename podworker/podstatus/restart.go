package podstatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// IsSidecar reports whether an init container is one that stays: it runs next to the
// containers of the pod and is restarted whatever its exit code
// (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/). For other
// containers it says nothing.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// RestartsContainer reports whether a container of the pod that ended with this exit
// code is started again. A container with a restart policy of its own goes by the
// first of its rules that matches, then by that policy; others go by the pod's
// (KEP-5307). Init containers are asked about as such: one that ended with 0 is done,
// which is for the caller to know.
func RestartsContainer(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	if c.RestartPolicy == nil {
		return Restarts(pod.Spec.RestartPolicy, exitCode)
	}
	if matchingRule(c, exitCode) != nil {
		return true // both actions start it again
	}
	return Restarts(corev1.RestartPolicy(*c.RestartPolicy), exitCode)
}

// RestartsAll reports whether the end of a container with this exit code restarts
// every container of its pod (KEP-5532).
func RestartsAll(c *corev1.Container, exitCode int32) bool {
	if c.RestartPolicy == nil {
		return false
	}
	rule := matchingRule(c, exitCode)
	return rule != nil && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// RestartsAfterKill reports whether a container is started again after the agent
// stopped it, as for a failed probe. There is no exit code yet, so rules do not count.
func RestartsAfterKill(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// matchingRule returns the first restart rule of a container that an exit code
// matches, nil if none does.
func matchingRule(c *corev1.Container, exitCode int32) *corev1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		codes := c.RestartPolicyRules[i].ExitCodes
		if codes == nil {
			continue
		}
		listed := slices.Contains(codes.Values, exitCode)
		switch codes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
			if listed {
				return &c.RestartPolicyRules[i]
			}
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			if !listed {
				return &c.RestartPolicyRules[i]
			}
		}
	}
	return nil
}
