package node_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// TestStatisticsAreServed of a runtime whose control groups this machine does not show.
func TestStatisticsAreServed(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(newPod("web"))
		k := m.start(t, func(c *node.Config) {
			c.Kubelet.HealthzPort = new(int32(0))
			c.Kubelet.ReadOnlyPort = 10255
		})
		pass(10 * time.Second)
		for _, network := range []string{"unix", "tcp"} {
			code, text := k.get(network, "/stats/summary")
			var s statsapi.Summary
			if err := json.Unmarshal([]byte(text), &s); code != http.StatusOK || err != nil {
				t.Fatalf("%s: summary is %d: %s", network, code, text)
			}
			if s.Node.NodeName != "node-a" || len(s.Pods) != 1 || len(s.Pods[0].Containers) != 1 || s.Pods[0].Containers[0].Logs == nil || s.Node.Fs == nil {
				t.Errorf("%s: summary is %s", network, text)
			}
			for page, want := range map[string]string{
				"/metrics/resource": `container_memory_working_set_bytes{container="`, "/metrics/cadvisor": "machine_cpu_cores{", "/metrics/probes": "process_start_time_seconds ",
				"/metrics/slis": `kubernetes_healthcheck{name="ping",type="healthz"} 1`,
			} {
				code, text := k.get(network, page)
				if code != http.StatusOK || !strings.Contains(text, "\n"+want) {
					t.Errorf("%s: %s is %d, without %s: %s", network, page, code, want, text)
				}
			}
		}
	})
}
