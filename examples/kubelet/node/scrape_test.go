package node_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestMetricsAreServed on the local socket, and for everybody where the configuration says
// so.
func TestMetricsAreServed(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(apiPod("api"))
		m.SetLives("work", runtimetest.Exits(time.Second, 0))
		pod := newPod("web")
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, *pod.Spec.Containers[0].DeepCopy())
		pod.Spec.InitContainers[0].Name = "work"
		m.manifests.write(pod)
		k := m.start(t, s.inCluster, func(c *node.Config) {
			c.Kubelet.HealthzPort = new(int32(0))
			c.Kubelet.ReadOnlyPort = 10255
		})
		pass(10 * time.Second)
		for _, network := range []string{"unix", "tcp"} {
			code, text := k.get(network, "/metrics")
			if code != http.StatusOK {
				t.Fatalf("metrics are %d: %s", code, text)
			}
			for _, want := range []string{
				`kubelet_node_name{node="node-a"} 1`,
				"kubelet_running_pods 2",
				`kubelet_running_containers{container_state="running"} 2`,
				`kubelet_running_containers{container_state="exited"} 1`,
				`kubelet_desired_pods{static="true"} 1`,
				`kubelet_desired_pods{static=""} 1`,
				`kubelet_active_pods{static="true"} 1`,
				`kubelet_working_pods{config="desired",lifecycle="sync",static="true"} 1`,
				`kubelet_working_pods{config="orphan",lifecycle="terminated",static=""} 0`,
				`kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 0`,
				`kubelet_started_containers_total{container_type="container"} 2`,
				`kubelet_started_containers_total{container_type="init_container"} 1`,
				`kubelet_pod_worker_duration_seconds_count{operation_type="create"} 2`,
				"kubelet_pod_worker_start_duration_seconds_count 2",
				"kubelet_pod_start_duration_seconds_count 2",
				"kubelet_pod_status_sync_duration_seconds_count ",
				"kubelet_pleg_relist_duration_seconds_count ",
				"kubelet_pleg_relist_interval_seconds_count ",
				"kubelet_pleg_last_seen_seconds ",
			} {
				if !strings.Contains(text, "\n"+want) {
					t.Errorf("metrics have no line %q", want)
				}
			}
		}
		if code, _ := k.get("tcp", "/pods"); code != http.StatusOK {
			t.Errorf("pods on the read-only port: %d", code)
		}
		if code, _ := k.get("tcp", "/manifests"); code != http.StatusNotFound {
			t.Errorf("the read-only port shows what is for root: %d", code)
		}
	})
}

// TestCallsToTheRuntimeAreCounted by the client of the configuration.
func TestCallsToTheRuntimeAreCounted(t *testing.T) {
	k := startReal(t)
	k.write("web.yaml", manifestOf("web", "1"))
	k.eventually("the calls are counted", func() error {
		text, err := k.get("/metrics")
		if err != nil {
			return err
		}
		for _, want := range []string{
			`kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1`,
			`kubelet_runtime_operations_duration_seconds_count{operation_type="start_container"} 1`,
		} {
			if !strings.Contains(text, want) {
				return context.DeadlineExceeded
			}
		}
		return nil
	})
}
