package node

import (
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// TestLogsOfTheMachine are served, and may be queried, where the configuration says so.
func TestLogsOfTheMachine(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		handler, query         bool
		wantFiles, wantQueries bool
	}{
		{"off", false, false, false, false},
		{"files", true, false, true, false},
		{"queries", true, true, true, true},
		{"queries without files", false, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &Node{cfg: Config{Kubelet: &kubeletconfig.KubeletConfiguration{
				EnableDebuggingHandlers: new(true), EnableDebugFlagsHandler: new(false), EnableProfilingHandler: new(false),
				EnableSystemLogHandler: &tt.handler, EnableSystemLogQuery: &tt.query,
			}}}
			if d := n.debugging(); (d.HostLogs == "/var/log") != tt.wantFiles || (d.Journal != nil) != tt.wantQueries {
				t.Errorf("files of %q are served, queries are: %t", d.HostLogs, d.Journal != nil)
			}
		})
	}
}
