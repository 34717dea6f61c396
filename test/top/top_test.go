package top_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// pod holds still, and has a volume.
const pod = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: PAUSE
    resources: {limits: {cpu: 100m, memory: 64Mi}}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {}}]
`

func TestClusterKnowsWhatIsUsed(t *testing.T) {
	clustertest.Require(t)
	c := clustertest.Start(t, cluster.Config{
		Name: "top", Nodes: 1, NoDNS: true, Node: cluster.NodeConfig{Kubelet: cluster.Ours, Proxy: cluster.None},
	})
	kubectl(t, c, strings.ReplaceAll(pod, "PAUSE", testnode.PauseRef), "apply", "-f", "-")
	startMetricsServer(t, c)
	kubectl(t, c, "", "wait", "--for=condition=Ready", "pod/web", "--timeout=2m")
	t.Run("summary", func(t *testing.T) { summary(t, c) })
	t.Run("metrics", func(t *testing.T) { metrics(t, c) })
	t.Run("top", func(t *testing.T) { top(t, c) })
}

// summary waits for the second reading, which has rates.
func summary(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	eventually(t, "a summary of the pod with rates", func(ctx context.Context) error {
		raw, err := node(ctx, c, "stats/summary")
		if err != nil {
			return err
		}
		var s statsapi.Summary
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			return testnode.Fatal(err)
		}
		return judge(&s)
	})
	raw, err := node(t.Context(), c, "stats/summary?only_cpu_and_memory=true")
	var little statsapi.Summary
	if err == nil {
		err = json.Unmarshal([]byte(raw), &little)
	}
	if err != nil || little.Node.CPU == nil || little.Node.Fs != nil || len(little.Pods) != 1 {
		t.Errorf("the small summary is %s, %v", raw, err)
	}
}

// judge says what a summary of the node with the pod lacks.
func judge(s *statsapi.Summary) error {
	n := &s.Node
	switch {
	case n.CPU == nil || n.CPU.UsageNanoCores == nil || *n.CPU.UsageNanoCores == 0:
		return fmt.Errorf("CPU of the node is %+v", n.CPU)
	case n.Memory == nil || n.Memory.AvailableBytes == nil || *n.Memory.WorkingSetBytes == 0:
		return fmt.Errorf("memory of the node is %+v", n.Memory)
	case n.Fs == nil || *n.Fs.CapacityBytes == 0 || n.Runtime == nil || n.Runtime.ImageFs == nil || *n.Runtime.ImageFs.UsedBytes == 0:
		return fmt.Errorf("file systems of the node are %+v, %+v", n.Fs, n.Runtime)
	case n.Network == nil || len(n.Network.Interfaces) == 0 || n.Rlimit == nil || n.Swap == nil:
		return fmt.Errorf("node is %+v", n)
	case !slices.ContainsFunc(n.SystemContainers, func(c statsapi.ContainerStats) bool { return c.Name == statsapi.SystemContainerPods }):
		return fmt.Errorf("groups of the system are %+v, want that of all pods among them", n.SystemContainers)
	case slices.ContainsFunc(n.SystemContainers, func(c statsapi.ContainerStats) bool { return c.StartTime.IsZero() }):
		return fmt.Errorf("groups of the system are %+v, want a start time of each", n.SystemContainers)
	case len(s.Pods) != 1:
		return fmt.Errorf("there are %d pods", len(s.Pods))
	}
	p := &s.Pods[0]
	switch {
	case p.CPU == nil || p.CPU.UsageNanoCores == nil || *p.CPU.UsageCoreNanoSeconds == 0 || p.Memory == nil || *p.Memory.WorkingSetBytes == 0:
		return fmt.Errorf("the pod uses %+v, %+v", p.CPU, p.Memory)
	case p.Network == nil || p.Network.Name != "eth0" || p.ProcessStats == nil || *p.ProcessStats.ProcessCount != 1:
		return fmt.Errorf("the pod has %+v, %+v", p.Network, p.ProcessStats)
	case len(p.VolumeStats) != 2 || p.EphemeralStorage == nil || *p.EphemeralStorage.UsedBytes == 0:
		return fmt.Errorf("volumes are %+v, %+v", p.VolumeStats, p.EphemeralStorage)
	case len(p.Containers) != 1 || p.Containers[0].Rootfs == nil || p.Containers[0].Logs == nil:
		return fmt.Errorf("containers are %+v", p.Containers)
	case *p.Containers[0].Memory.AvailableBytes+*p.Containers[0].Memory.WorkingSetBytes != 64<<20:
		return fmt.Errorf("memory of the container is %+v, want a limit of 64Mi", p.Containers[0].Memory)
	}
	return nil
}

// metrics looks for what dashboards show.
func metrics(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for page, want := range map[string][]string{
		"metrics": {
			`kubelet_started_pods_total `, `kubelet_run_podsandbox_duration_seconds_count{runtime_handler=""} `, "kubelet_node_startup_duration_seconds ",
			`rest_client_requests_total{code="200"`, `kubelet_http_requests_total{long_running="false",method="GET",path="stats",server_type="readwrite"}`,
			`storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/empty-dir"}`,
			"kubelet_pod_start_sli_duration_seconds_count 1", "kubernetes_build_info{",
		},
		"metrics/resource": {
			`container_memory_working_set_bytes{container="main",pod="web",namespace="default"} `, `pod_cpu_usage_seconds_total{pod="web",namespace="default"} `,
			"node_cpu_usage_seconds_total ", "resource_scrape_error 0",
		},
		"metrics/cadvisor": {
			`container_spec_memory_limit_bytes{container="main",id="/`, `container_network_receive_bytes_total{container="",id="/`, `container_spec_cpu_quota{container="main",id="/`,
			`container_fs_usage_bytes{container="main",id="/`, `container_cpu_usage_seconds_total{container="",id="/",image="",name="",namespace="",pod="",cpu="total"}`,
			"machine_cpu_cores{", "container_scrape_error 0",
		},
	} {
		text, err := node(t.Context(), c, page)
		if err != nil {
			t.Error(err)
		}
		for _, line := range want {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("%s has no line %s", page, line)
			}
		}
	}
}

// top has metrics-server read the kubelet, and kubectl read metrics-server.
func top(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	eventually(t, "kubectl top shows the node and the pod", func(ctx context.Context) error {
		nodes, err := c.Kubectl(ctx, "", "top", "nodes", "--no-headers")
		if err != nil {
			return err
		}
		pods, err := c.Kubectl(ctx, "", "top", "pods", "--containers", "--no-headers")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(nodes, c.Node(0).NodeName()+" ") || strings.Contains(nodes, "<unknown>") {
			return errors.New(nodes)
		}
		if f := strings.Fields(pods); len(f) != 4 || f[0] != "web" || f[1] != "main" {
			return errors.New(pods)
		}
		return nil
	})
	var list struct {
		Items []struct {
			Containers []struct {
				Name  string
				Usage map[string]resource.Quantity
			}
		}
	}
	raw := kubectl(t, c, "", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		for _, ct := range item.Containers {
			if memory := ct.Usage["memory"]; memory.Value() <= 0 || memory.Value() > 64<<20 {
				t.Errorf("container %s uses %s of memory, want more than nothing and no more than its limit", ct.Name, memory.String())
			}
		}
	}
}
