package node

import (
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

func TestPagesHaveGates(t *testing.T) {
	for _, tt := range []struct {
		name          string
		gates         map[string]bool
		flags, status bool
	}{
		{"by default", nil, true, true},
		{"without flags", map[string]bool{GateFlagz: false, GateStatusz: true}, false, true},
		{"without status", map[string]bool{GateStatusz: false}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &Node{cfg: Config{
				Kubelet: &kubeletconfig.KubeletConfiguration{FeatureGates: tt.gates},
				API:     API{Flags: func() map[string]string { return nil }},
			}}
			p := n.pages(nil)
			if (p.Flags != nil) != tt.flags || (p.Status != nil) != tt.status {
				t.Errorf("flags are shown: %t, status: %t; want %t and %t", p.Flags != nil, p.Status != nil, tt.flags, tt.status)
			}
			if tt.status && p.Status.Emulates != "1.37" {
				t.Errorf("emulates %q of %q, want 1.37", p.Status.Emulates, p.Status.Version)
			}
		})
	}
}
