package podsync_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
)

// TestNewNamesWhatIsWrong gives New what it cannot work with.
func TestNewNamesWhatIsWrong(t *testing.T) {
	good := podsync.Config{Node: podspec.Node{Instance: "agent-1"}}
	tests := []struct {
		name    string
		runtime podsync.Runtime
		edit    func(*podsync.Config)
		want    string
	}{
		{name: "no runtime", want: "Runtime"},
		{name: "no instance", runtime: &runtime.Client{}, edit: func(c *podsync.Config) { c.Node.Instance = "" }, want: "Config.Node.Instance"},
		{name: "long back-off", runtime: &runtime.Client{}, edit: func(c *podsync.Config) { c.MaxBackoff = time.Hour }, want: "Config.MaxBackoff"},
		{name: "relative root", runtime: &runtime.Client{}, edit: func(c *podsync.Config) { c.Node.Root = "kubelet" }, want: "Config.Node.Root"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good
			if tt.edit != nil {
				tt.edit(&cfg)
			}
			if _, err := podsync.New(tt.runtime, cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want an error with %q", err, tt.want)
			}
		})
	}
}
