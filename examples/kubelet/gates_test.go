package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// TestGatesSayWhatIsHere, and not what a kubelet has by default.
func TestGatesSayWhatIsHere(t *testing.T) {
	const asIf = "has no effect: the feature is as if it were "
	for _, tt := range []struct {
		name    string
		on, off string // what is said where it is set so; "": nothing
	}{
		{"PodsAPI", asIf + "false", ""},
		{"PodLogsQuerySplitStreams", "", asIf + "true"},
		{"KubeletAllocatedPodsEndpoint", "", asIf + "true"},
		{"CPUManagerPolicyAlphaOptions", asIf + "false", ""},
		{"CPUManagerPolicyOptions", "", "cannot be false, the feature is locked"},
		{"KubeletInUserNamespace", "", ""},
		{"AllAlpha", "has no effect: no feature is switched by it", ""},
		{"AllBeta", "has no effect: no feature is switched by it", "has no effect: no feature is switched by it"},
		{"Warp", "no feature gate has this name", "no feature gate has this name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := func(on bool) string {
				problems := checkGates(&kubeletconfig.KubeletConfiguration{FeatureGates: map[string]bool{tt.name: on}})
				if len(problems) == 0 {
					return ""
				}
				return problems[0].Message
			}
			if diff := cmp.Diff([]string{tt.on, tt.off}, []string{said(true), said(false)}); diff != "" {
				t.Errorf("on and off (-want +got):\n%s", diff)
			}
		})
	}
}
