package main

import (
	"io"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// TestFlagsAreShown as they were given, but for what may be a password.
func TestFlagsAreShown(t *testing.T) {
	o, err := parse([]string{"--config=/etc/k.yaml", "--v=4", "--max-pods=7", "--manifest-url-header=Authorization:secret"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	shown := o.flags.all()
	for name, want := range map[string]string{
		"config": "/etc/k.yaml", "v": "debug", "max-pods": "7", "manifest-url-header": "CLASSIFIED", "hostname-override": "",
	} {
		if got, ok := shown[name]; !ok || got != want {
			t.Errorf("--%s is shown as %q, want %q", name, got, want)
		}
	}
	for name, value := range shown {
		if strings.Contains(value, "secret") {
			t.Errorf("--%s is shown as %q", name, value)
		}
	}
}

// TestGatesOfPages can be switched without a complaint.
func TestGatesOfPages(t *testing.T) {
	k := &kubeletconfig.KubeletConfiguration{FeatureGates: map[string]bool{node.GateFlagz: false, node.GateStatusz: false}}
	if problems := checkGates(k); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
}
