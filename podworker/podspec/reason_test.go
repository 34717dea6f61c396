package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRefusalHasTheKubeletsReason where that would refuse the pod for the same.
func TestRefusalHasTheKubeletsReason(t *testing.T) {
	strict := corev1.SupplementalGroupsPolicyStrict
	confined := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	of := func(edit func(pod *corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "default", "web", "u1"
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "img"}}
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
		edit(pod)
		return pod
	}
	tests := []struct {
		name            string
		pod             *corev1.Pod
		reason, message string
	}{
		{
			name: "AppArmor of the pod", reason: "AppArmor", message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
			pod: of(func(p *corev1.Pod) { p.Spec.SecurityContext.AppArmorProfile = confined }),
		},
		{
			name: "AppArmor of a container and of an annotation", reason: "AppArmor", message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
			pod: of(func(p *corev1.Pod) {
				p.Annotations = map[string]string{appArmorPrefix + "app": "runtime/default"}
				p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: confined}
			}),
		},
		{
			name: "strict groups", reason: "SupplementalGroupsPolicyNotSupported", message: "SupplementalGroupsPolicy=Strict is not supported in this node",
			pod: of(func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroupsPolicy = &strict }),
		},
		{
			name: "both", reason: "UnsupportedField",
			pod: of(func(p *corev1.Pod) {
				p.Spec.SecurityContext.SupplementalGroupsPolicy, p.Spec.SecurityContext.AppArmorProfile = &strict, confined
			}),
		},
		{
			name: "something else", reason: "UnsupportedField",
			pod: of(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "closed"}} }),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err, ok := Refusal(Check(tt.pod, Options{})).(*RefusedError) //nolint:errorlint // it is never wrapped
			if !ok {
				t.Fatal("the pod is not refused")
			}
			reason, message := err.Reason()
			if reason != tt.reason || tt.message != "" && message != tt.message {
				t.Errorf("reason %s, message %q from %q; want %s, %q", reason, message, err.Fields, tt.reason, tt.message)
			}
		})
	}
}
