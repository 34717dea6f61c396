package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/pinning"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// twoNodes gives the node a machine of two NUMA nodes with two cores of so many CPUs each,
// and 2 GiB. CPU 0 is reserved, and the agent gives CPUs and memory to containers.
func twoNodes(t *testing.T, threads int) func(*node.Config) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"proc/meminfo":                   "MemTotal: 4194304 kB\n",
		"proc/sys/kernel/pid_max":        "32768\n",
		"sys/devices/system/cpu/online":  fmt.Sprintf("0-%d\n", 4*threads-1),
		"sys/devices/system/node/online": "0-1\n",
	}
	for numa := range 2 {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", numa)
		first := numa * 2 * threads
		files[dir+"cpulist"] = fmt.Sprintf("%d-%d\n", first, first+2*threads-1)
		files[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal: 2097152 kB\n", numa)
		for cpu := first; cpu < first+2*threads; cpu++ {
			dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
			files[dir+"core_id"] = fmt.Sprintln(cpu / threads)
			files[dir+"physical_package_id"] = fmt.Sprintln(numa)
		}
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *node.Config) {
		c.Machine = capacity.Config{Root: root, StorageDir: "/"}
		c.Kubelet.CPUManagerPolicy, c.Kubelet.ReservedSystemCPUs = "static", "0"
		c.Kubelet.MemoryManagerPolicy = kubeletconfig.StaticMemoryManagerPolicy
		c.Kubelet.ReservedMemory = []kubeletconfig.MemoryReservation{{Limits: corev1.ResourceList{"memory": resource.MustParse("100Mi")}}}
		c.Kubelet.TopologyManagerPolicy = "single-numa-node"
	}
}

// sized gives the container of a pod CPU and memory, so that the pod is Guaranteed.
func sized(pod *corev1.Pod, cpu string) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	return pod
}

// placed tells on which CPUs and which memory the container of each pod is: "1-2 of 0".
func (m *machine) placed(t *testing.T, pods ...string) map[string]string {
	t.Helper()
	c := m.Client(t)
	defer c.Close()
	out := map[string]string{}
	for _, pod := range pods {
		id, err := m.ContainerID("default/"+pod, "app")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.ContainerStatus(t.Context(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		r := resp.GetStatus().GetResources().GetLinux()
		out[pod] = r.GetCpusetCpus() + " of " + r.GetCpusetMems()
	}
	return out
}

func wantPlaced(t *testing.T, what string, m *machine, want map[string]string) {
	t.Helper()
	var names []string
	for name := range want {
		names = append(names, name)
	}
	if diff := cmp.Diff(want, m.placed(t, names...)); diff != "" {
		t.Errorf("%s, CPUs and memory (-want +got):\n%s", what, diff)
	}
}

// TestContainersHaveCPUsToThemselves follows the CPUs of containers over the lives of pods
// and of the agent.
func TestContainersHaveCPUsToThemselves(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(newPod("shares"))
		k := m.start(t, twoNodes(t, 1))
		pass(5 * time.Second)
		wantPlaced(t, "alone", m, map[string]string{"shares": "0-3 of "})
		m.manifests.write(newPod("shares"), sized(newPod("two"), "2"), sized(newPod("part"), "500m"))
		pass(5 * time.Second)
		with := map[string]string{"shares": "0-1 of ", "two": "2-3 of 1", "part": "0-1 of 0"}
		wantPlaced(t, "with others", m, with)
		id, err := m.ContainerID("default/two", "app")
		if err != nil {
			t.Fatal(err)
		}
		k.end()
		m.start(t, twoNodes(t, 1))
		pass(15 * time.Second)
		wantPlaced(t, "after a restart of the agent", m, with)
		if now, err := m.ContainerID("default/two", "app"); now != id || err != nil {
			t.Errorf("the container is %s, it was %s (%v)", now, id, err)
		}
		m.manifests.write(newPod("shares"), sized(newPod("part"), "500m"))
		pass(40 * time.Second)
		wantPlaced(t, "after the end of one", m, map[string]string{"shares": "0-3 of "})
	})
}

// TestCPUsOfPodsThatWentWhileNoAgentRan are for others.
func TestCPUsOfPodsThatWentWhileNoAgentRan(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(newPod("shares"), sized(newPod("two"), "2"))
		k := m.start(t, twoNodes(t, 1))
		pass(5 * time.Second)
		k.end()
		m.manifests.write(newPod("shares"))
		m.start(t, twoNodes(t, 1))
		pass(time.Minute)
		wantPlaced(t, "after its end", m, map[string]string{"shares": "0-3 of "})
		raw, err := os.ReadFile(filepath.Join(m.root, pinning.CPUFile))
		if err != nil || strings.Contains(string(raw), "uid-two") {
			t.Errorf("%s has %s, %v", pinning.CPUFile, raw, err)
		}
	})
}

// TestPodsThatDoNotSuitTheNode: those of the API server fail with the reasons of a kubelet,
// those of manifests wait.
func TestPodsThatDoNotSuitTheNode(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(sized(apiPod("one"), "1"), sized(apiPod("other"), "1"))
		m.start(t, twoNodes(t, 1), s.inCluster)
		pass(5 * time.Second)
		wantPlaced(t, "at first", m, map[string]string{"one": "1 of 0", "other": "2 of 1"})
		s.vanish("uid-one")
		pass(40 * time.Second)
		m.manifests.write(sized(newPod("waits"), "2"))
		s.bind(sized(apiPod("fails"), "2"), sized(apiPod("many"), "5"))
		pass(5 * time.Second)
		const none = "Failed TopologyAffinityError Pod was rejected: Resources cannot be allocated with Topology locality"
		want := map[string]string{"fails": none, "many": none}
		for name := range want {
			if got := s.refusal(apiPod(name)); got != want[name] {
				t.Errorf("pod %s is %q, want %q", name, got, want[name])
			}
		}
		s.vanish("uid-other")
		pass(40 * time.Second)
		wantPlaced(t, "when there is room", m, map[string]string{"waits": "2-3 of 1"})
	})
}

// refusal returns phase, reason and message of a pod.
func (s *apiServer) refusal(pod *corev1.Pod) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.pods[pod.UID].Status
	return fmt.Sprint(st.Phase, " ", st.Reason, " ", st.Message)
}

// TestReasonsOfTheCPUManager come before those of the resources, as in a kubelet.
func TestReasonsOfTheCPUManager(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(sized(apiPod("half"), "1"), sized(apiPod("many"), "9"))
		k := m.start(t, twoNodes(t, 2), s.inCluster, func(c *node.Config) {
			c.Kubelet.TopologyManagerPolicy = "none"
			c.Kubelet.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true"}
		})
		pass(5 * time.Second)
		want := map[string]string{
			"half": "Failed SMTAlignmentError Pod was rejected: SMT Alignment Error: requested 1 cpus not multiple cpus per core = 2",
			"many": "Failed SMTAlignmentError Pod was rejected: SMT Alignment Error: requested 9 cpus not multiple cpus per core = 2",
		}
		for name := range want {
			if got := s.refusal(apiPod(name)); got != want[name] {
				t.Errorf("pod %s is %q, want %q", name, got, want[name])
			}
		}
		s.bind(sized(apiPod("most"), "8"))
		pass(5 * time.Second)
		const short = "Failed SMTAlignmentError Pod was rejected: SMT Alignment Error: not enough free physical CPUs: " +
			"available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2"
		if got := s.refusal(apiPod("most")); got != short {
			t.Errorf("pod most is %q, want %q", got, short)
		}
		_, metrics := k.get("unix", "/metrics")
		for _, want := range []string{
			"kubelet_cpu_manager_pinning_requests_total 3",
			"kubelet_cpu_manager_pinning_errors_total 3",
			"kubelet_cpu_manager_shared_pool_size_millicores 7000",
			"kubelet_topology_manager_admission_requests_total 3",
			"kubelet_topology_manager_admission_errors_total 0",
			`kubelet_container_aligned_compute_resources_failure_count{boundary="physical_cpu",scope="container"} 3`,
		} {
			if !strings.Contains(metrics, "\n"+want+"\n") {
				t.Errorf("metrics have no line %q", want)
			}
		}
	})
}

// TestMemoryOfAPinnedPodIsResized without a quota of CPU, and on the CPUs it has.
func TestMemoryOfAPinnedPodIsResized(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(sized(apiPod("pinned"), "1"))
		m.start(t, twoNodes(t, 1), s.inCluster, func(c *node.Config) {
			c.Kubelet.MemoryManagerPolicy, c.Kubelet.ReservedMemory = kubeletconfig.NoneMemoryManagerPolicy, nil
		})
		pass(5 * time.Second)
		more := sized(apiPod("pinned"), "1")
		more.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("128Mi") // and the requests
		s.bind(more)
		pass(5 * time.Second)
		told := false
		for _, call := range m.Calls("UpdateContainerResources") {
			r := call.Request.(*runtimeapi.UpdateContainerResourcesRequest).GetLinux()
			told = told || r.GetMemoryLimitInBytes() == 128<<20
			if r.GetCpuQuota() != 0 || r.GetCpuPeriod() != 0 {
				t.Errorf("the container is given a quota: %v", r)
			}
		}
		if !told {
			t.Errorf("the container was not given its memory: %v", m.Calls("UpdateContainerResources"))
		}
	})
}

// TestPinnedPodsAreNotResized: they would need other CPUs, or other memory.
func TestPinnedPodsAreNotResized(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(sized(apiPod("pinned"), "1"))
		m.start(t, twoNodes(t, 1), s.inCluster)
		pass(5 * time.Second)
		s.bind(sized(apiPod("pinned"), "2"))
		pass(5 * time.Second)
		if got := s.pendingResize(apiPod("pinned")); got != "Infeasible" {
			t.Errorf("resize is %q, want it infeasible", got)
		}
		const message = `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy`
		if !m.log.has("msg=event", "reason=ResizeInfeasible", message) {
			t.Errorf("no event says %q", message)
		}
		wantPlaced(t, "after the resize", m, map[string]string{"pinned": "1 of 0"})
	})
}
