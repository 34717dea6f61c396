package node_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestLogsAreRotated(t *testing.T) {
	tests := map[string]struct {
		size string
		want int // log files of the container
	}{
		"smaller than the limit": {size: "1Mi", want: 1},
		"larger":                 {size: "4Ki", want: 2},
		"without a limit":        {size: "-1", want: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				life := runtimetest.Life{}
				for range 100 {
					life.Log = append(life.Log, runtimetest.LogLine{Text: strings.Repeat("x", 100)})
				}
				m.SetLives("app", life)
				m.manifests.write(newPod("web"))
				m.start(t, func(c *node.Config) {
					c.Kubelet.ContainerLogMaxSize = test.size
					c.Kubelet.ContainerLogMonitorInterval = &metav1.Duration{Duration: 3 * time.Second}
				})
				pass(20 * time.Second)
				files, err := filepath.Glob(filepath.Join(m.root, "..", "logs", "*", "app", "*"))
				if err != nil || len(files) != test.want {
					t.Errorf("log files are %q (%v), want %d", files, err, test.want)
				}
				if got := len(m.Calls("ReopenContainerLog")); got != test.want-1 {
					t.Errorf("the runtime was asked %d times to reopen a log, want %d", got, test.want-1)
				}
			})
		})
	}
}
