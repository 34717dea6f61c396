package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
)

// TestAPIThatNobodyMayUseIsToldOf: a node of its own says what is missing, and nothing where
// somebody may.
func TestAPIThatNobodyMayUseIsToldOf(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		name   string
		change func(*kubeletconfig.KubeletConfiguration)
		want   string
	}{
		{"by default", func(*kubeletconfig.KubeletConfiguration) {}, "authorization.mode is Webhook"},
		{"with all allowed", func(k *kubeletconfig.KubeletConfiguration) { k.Authorization.Mode = "AlwaysAllow" }, "nothing tells who asks"},
		{"with all allowed, and certificates", func(k *kubeletconfig.KubeletConfiguration) {
			k.Authorization.Mode, k.Authentication.X509.ClientCAFile = "AlwaysAllow", "/ca.crt"
		}, ""},
		{"open", func(k *kubeletconfig.KubeletConfiguration) {
			k.Authorization.Mode, k.Authentication.Anonymous.Enabled = "AlwaysAllow", &yes
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kubeletconfig.KubeletConfiguration{}
			tt.change(k)
			config.SetDefaults(k)
			var log bytes.Buffer
			n := &Node{cfg: Config{Kubelet: k, Name: "node-a"}, log: slog.New(slog.NewTextHandler(&log, nil))}
			n.access(nil)
			if tt.want == "" && log.Len() > 0 || !strings.Contains(log.String(), tt.want) {
				t.Errorf("the log says %q, want %q in it", log.String(), tt.want)
			}
		})
	}
}
