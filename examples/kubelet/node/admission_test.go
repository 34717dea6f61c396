package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// small gives the node a machine of 2 CPUs and 4 GiB, of which 500m and the default
// threshold of 100 MiB are kept.
func small(t *testing.T) func(*node.Config) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/cpuinfo":            "processor: 0\nprocessor: 1\n",
		"proc/meminfo":            "MemTotal: 4194304 kB\n",
		"proc/sys/kernel/pid_max": "32768\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *node.Config) {
		c.Kubelet.KubeReserved = map[string]string{"cpu": "500m"}
		c.Machine = capacity.Config{Root: root, StorageDir: "/"}
	}
}

// asks returns a pod that requests CPU, with a priority.
func asks(name, cpu string, priority int32) *corev1.Pod {
	pod := newPod(name)
	pod.Spec.Priority = &priority
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return pod
}

// phases tells for each pod its phase and reason.
func (k *kubelet) phases() map[string]string {
	k.t.Helper()
	phases := map[string]string{}
	for name, pod := range k.pods() {
		phases[name] = strings.TrimSpace(string(pod.Status.Phase) + " " + pod.Status.Reason)
	}
	return phases
}

// TestPodsStartWhereThereIsRoom: a pod larger than the node fails, one that has no room
// waits for another to end, and a restart of the agent changes none of it.
func TestPodsStartWhereThereIsRoom(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(asks("a", "1", 0), asks("b", "1", 0), asks("huge", "1600m", 0), asks("tiny", "100m", 0))
		k := m.start(t, small(t))
		pass(5 * time.Second)
		want := map[string]string{"a": "Running", "b": "Pending OutOfcpu", "huge": "Failed OutOfcpu", "tiny": "Running"}
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		const message = "Node didn't have enough resource: cpu, requested: 1600, "
		if got := k.pods()["huge"].Status.Message; !strings.HasPrefix(got, "Pod was rejected: "+message) {
			t.Errorf("message %q, want that of a rejected pod with %q", got, message)
		}
		for _, pod := range []string{"pod=default/huge", "pod=default/b"} {
			if !m.log.has("msg=event", pod, "reason=OutOfcpu") {
				t.Errorf("no event tells why %s does not start", pod)
			}
		}
		k.end()
		k = m.start(t, small(t))
		pass(5 * time.Second)
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases after a restart (-want +got):\n%s", diff)
		}
		m.manifests.write(asks("b", "1", 0), asks("tiny", "100m", 0))
		pass(30 * time.Second)
		if diff := cmp.Diff(map[string]string{"b": "Running", "tiny": "Running"}, k.phases()); diff != "" {
			t.Errorf("phases when there is room (-want +got):\n%s", diff)
		}
	})
}

// TestPodOfAnAPIServerFailsWhereThereIsNoRoom, after a while in which another one may end:
// a StatefulSet waits for it to fail, to make it again.
func TestPodOfAnAPIServerFailsWhereThereIsNoRoom(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		port := func(name string) *corev1.Pod {
			pod := apiPod(name)
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 21017, ContainerPort: 21017}}
			return pod
		}
		s := newAPIServer()
		s.bind(port("first"))
		k := m.start(t, s.inCluster)
		pass(10 * time.Second)
		s.bind(port("second"))
		pass(10 * time.Second)
		want := map[string]string{"first": "Running", "second": "Pending NodePorts"}
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		pass(15 * time.Second)
		want["second"] = "Failed NodePorts"
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases after a while (-want +got):\n%s", diff)
		}
		const message = "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
		if got := k.pods()["second"].Status.Message; got != message {
			t.Errorf("message is %q, want %q", got, message)
		}
	})
}

// TestPodsThatRunAreNotAskedAbout: a node that has become smaller keeps its pods, and
// starts no more.
func TestPodsThatRunAreNotAskedAbout(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(asks("z", "700m", 0))
		k := m.start(t, small(t))
		pass(5 * time.Second)
		k.end()
		m.manifests.write(asks("a", "700m", 0), asks("z", "700m", 0))
		k = m.start(t, small(t), func(c *node.Config) { c.Kubelet.KubeReserved = map[string]string{"cpu": "1300m"} })
		pass(5 * time.Second)
		want := map[string]string{"a": "Pending OutOfcpu", "z": "Running"}
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}

// TestImportantPodTakesThePlaceOfAnother: a pod of a higher priority preempts one of a
// lower, and starts once that has ended.
func TestImportantPodTakesThePlaceOfAnother(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(asks("low", "1", 1), asks("other", "400m", 5))
		k := m.start(t, small(t))
		pass(5 * time.Second)
		m.manifests.write(asks("low", "1", 1), asks("other", "400m", 5), asks("high", "1", 10))
		pass(time.Minute)
		want := map[string]string{"low": "Failed Preempting", "other": "Running", "high": "Running"}
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		status := k.pods()["low"].Status
		if status.Message != "Preempted in order to admit critical pod" {
			t.Errorf("message %q", status.Message)
		}
		if !m.log.has("msg=event", "pod=default/low", "reason=Preempting") {
			t.Error("no event tells of the preemption")
		}
	})
}

// TestPreemptedPodEndsAsItsContainers: it has failed, unless all of them end with 0.
func TestPreemptedPodEndsAsItsContainers(t *testing.T) {
	for _, tt := range []struct {
		name string
		code int32
		want corev1.PodPhase
	}{
		{"all end with 0", 0, corev1.PodSucceeded},
		{"one does not", 143, corev1.PodFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.SetLives("app", runtimetest.Life{Term: &runtimetest.Exit{Code: tt.code}})
				api := newAPIServer()
				low, high := apiPod("low"), apiPod("high")
				for pod, priority := range map[*corev1.Pod]int32{low: 1, high: 2_000_001_000} {
					pod.Spec.Priority = &priority
					pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
				}
				api.bind(low)
				m.start(t, small(t), api.inCluster)
				pass(5 * time.Second)
				api.bind(high)
				pass(time.Minute)
				if got := api.phase(low.UID); got != tt.want {
					t.Errorf("the preempted pod is %q, want %q", got, tt.want)
				}
				if got := api.phase(high.UID); got != corev1.PodRunning {
					t.Errorf("the critical pod is %q, want it running", got)
				}
			})
		})
	}
}

// TestNodePage: the page /node tells what there is and what is held.
func TestNodePage(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(asks("a", "1", 0))
		k := m.start(t, small(t))
		pass(5 * time.Second)
		_, body := k.get("unix", "/node")
		for _, row := range []string{
			"RESOURCE CAPACITY ALLOCATABLE REQUESTED KEPT",
			"cpu 2 1500m 1 kubeReserved 500m",
			"memory 4Gi 3996Mi 0 evictionHard 100Mi (memory.available 100Mi)",
			"pods 110 110 1 -",
			"pid 32768 32768 - -",
		} {
			if !strings.Contains(strings.Join(strings.Fields(body), " "), row) {
				t.Errorf("no row %q in\n%s", row, body)
			}
		}
		_, body = k.get("unix", "/node?output=json")
		var got corev1.Node
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != "node-a" || got.Status.Allocatable.Cpu().String() != "1500m" || got.Status.Capacity.Cpu().String() != "2" {
			t.Errorf("node %s", body)
		}
		if code, _ := k.get("tcp", "/node"); code != http.StatusNotFound {
			t.Errorf("over TCP the page is %d", code)
		}
	})
}

// TestMachineThatGrows: what has no room starts when the machine gets more.
func TestMachineThatGrows(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(asks("a", "1", 0), asks("b", "1", 0))
		grow := small(t)
		var root string
		k := m.start(t, grow, func(c *node.Config) { root = c.Machine.Root })
		pass(5 * time.Second)
		if err := os.WriteFile(filepath.Join(root, "proc/cpuinfo"), []byte("processor: 0\nprocessor: 1\nprocessor: 2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		if diff := cmp.Diff(map[string]string{"a": "Running", "b": "Running"}, k.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		if !m.log.has("the machine has changed", "what=cpu", "now=3") {
			t.Error("the log does not tell of the change")
		}
	})
}

// TestNodeDoesNotStartWithMoreReservedThanThereIs: as a kubelet.
func TestNodeDoesNotStartWithMoreReservedThanThereIs(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		k := m.start(t, small(t), func(c *node.Config) {
			c.Kubelet.SystemReserved = map[string]string{"memory": "5Gi"}
		})
		err := <-k.ended
		k.stop()
		k.stop = nil
		if err == nil || !strings.Contains(err.Error(), "systemReserved 5Gi") {
			t.Errorf("Run: %v, want an error that names the reservation", err)
		}
	})
}
