package podstatus

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// ruled returns a container with a restart policy and one rule.
func ruled(policy corev1.ContainerRestartPolicy, op corev1.ContainerRestartRuleOnExitCodesOperator, action corev1.ContainerRestartRuleAction, codes ...int32) *corev1.Container {
	return &corev1.Container{
		RestartPolicy: &policy,
		RestartPolicyRules: []corev1.ContainerRestartRule{{
			Action:    action,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes},
		}},
	}
}

func TestRestartsContainer(t *testing.T) {
	const (
		in, notIn     = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
		restart, all  = corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
		never, always = corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyAlways
		onFailure     = corev1.ContainerRestartPolicyOnFailure
	)
	own := func(p corev1.ContainerRestartPolicy) *corev1.Container { return &corev1.Container{RestartPolicy: &p} }
	without := ruled(never, in, restart, 42)
	without.RestartPolicy = nil
	tests := []struct {
		name      string
		pod       corev1.RestartPolicy
		c         *corev1.Container
		code      int32
		want, all bool
	}{
		{name: "the pod's policy", pod: corev1.RestartPolicyOnFailure, c: &corev1.Container{}, code: 1, want: true},
		{name: "the pod's policy, success", pod: corev1.RestartPolicyOnFailure, c: &corev1.Container{}},
		{name: "its own policy wins", pod: corev1.RestartPolicyNever, c: own(always), want: true},
		{name: "its own never wins", pod: corev1.RestartPolicyAlways, c: own(never), code: 1},
		{name: "its own on failure", pod: corev1.RestartPolicyNever, c: own(onFailure), code: 1, want: true},
		{name: "a rule that matches", pod: corev1.RestartPolicyNever, c: ruled(never, in, restart, 42), code: 42, want: true},
		{name: "a rule that does not", pod: corev1.RestartPolicyAlways, c: ruled(never, in, restart, 42), code: 1},
		{name: "not in", pod: corev1.RestartPolicyNever, c: ruled(never, notIn, restart, 0), code: 3, want: true},
		{name: "not in, listed", pod: corev1.RestartPolicyNever, c: ruled(never, notIn, restart, 0)},
		{name: "all containers", pod: corev1.RestartPolicyNever, c: ruled(never, in, all, 88), code: 88, want: true, all: true},
		{name: "rules without a policy say nothing", pod: corev1.RestartPolicyNever, c: without, code: 42},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tt.pod}}
			if got := RestartsContainer(pod, tt.c, tt.code); got != tt.want {
				t.Errorf("RestartsContainer is %t, want %t", got, tt.want)
			}
			if got := RestartsAll(tt.c, tt.code); got != tt.all {
				t.Errorf("RestartsAll is %t, want %t", got, tt.all)
			}
		})
	}
}

func TestRestartsAfterKill(t *testing.T) {
	never := corev1.ContainerRestartPolicyNever
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure}}
	if !RestartsAfterKill(pod, &corev1.Container{}) || RestartsAfterKill(pod, &corev1.Container{RestartPolicy: &never}) {
		t.Error("want the pod's policy unless the container has its own")
	}
}
