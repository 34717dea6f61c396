package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// amounts makes a list of resources from pairs of name and quantity.
func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestOOMScore(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	with := func(name, memory string) corev1.Container {
		c := corev1.Container{Name: name}
		if memory != "" {
			c.Resources.Requests = amounts("memory", memory)
		}
		return c
	}
	sidecar := func(memory string) corev1.Container {
		c := with("proxy", memory)
		c.RestartPolicy = &always
		return c
	}
	tests := []struct {
		name string
		spec corev1.PodSpec
		of   func(*corev1.PodSpec) *corev1.Container
		want int64
	}{
		{name: "an eighth of the node", spec: corev1.PodSpec{Containers: []corev1.Container{with("app", "1Gi")}}, want: 875},
		{name: "no request beside one", spec: corev1.PodSpec{Containers: []corev1.Container{with("app", ""), with("b", "1Gi")}}, want: 999},
		{name: "critical for nodes", spec: corev1.PodSpec{PriorityClassName: "system-node-critical", Containers: []corev1.Container{with("app", "")}}, want: -997},
		{name: "critical for clusters is not", spec: corev1.PodSpec{PriorityClassName: "system-cluster-critical", Containers: []corev1.Container{with("app", "")}}, want: 1000},
		{
			name: "a sidecar lives as long as the least of the others", of: firstInit, want: 750,
			spec: corev1.PodSpec{InitContainers: []corev1.Container{sidecar("1Gi")}, Containers: []corev1.Container{with("app", "2Gi"), with("b", "4Gi")}},
		},
		{
			name: "a sidecar with more of its own", of: firstInit, want: 500,
			spec: corev1.PodSpec{InitContainers: []corev1.Container{sidecar("4Gi")}, Containers: []corev1.Container{with("app", "2Gi")}},
		},
		{
			name: "an init container is no sidecar", of: firstInit, want: 875,
			spec: corev1.PodSpec{InitContainers: []corev1.Container{with("i", "1Gi")}, Containers: []corev1.Container{with("app", "2Gi")}},
		},
		{
			name: "what the pod asks for beyond its containers is shared", want: 625, // 1 + (6 - 1 - 1) / 2 of 8 GiB
			spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: amounts("memory", "6Gi")}, Containers: []corev1.Container{with("app", "1Gi"), with("b", "1Gi")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web(func(p *corev1.Pod) { p.Spec = tt.spec })
			c := &pod.Spec.Containers[0]
			if tt.of != nil {
				c = tt.of(&pod.Spec)
			}
			if got := podspec.Resources(pod, c, node()).GetOomScoreAdj(); got != tt.want {
				t.Errorf("score is %d, want %d", got, tt.want)
			}
		})
	}
}

func firstInit(spec *corev1.PodSpec) *corev1.Container { return &spec.InitContainers[0] }

// TestMemoryOnVersion2 looks at the settings that only cgroup v2 has.
func TestMemoryOnVersion2(t *testing.T) {
	burstable := corev1.ResourceRequirements{Requests: amounts("memory", "1Gi"), Limits: amounts("memory", "2Gi")}
	guaranteed := corev1.ResourceRequirements{Requests: amounts("cpu", "1", "memory", "1Gi"), Limits: amounts("cpu", "1", "memory", "1Gi")}
	none := map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0"}
	tests := []struct {
		name   string
		r      corev1.ResourceRequirements
		limits podspec.Limits
		edit   func(*corev1.Pod)
		want   map[string]string
	}{
		{name: "by default", r: burstable, want: none},
		{name: "single processes are killed", r: burstable, limits: podspec.Limits{SingleProcessOOMKill: true}, want: map[string]string{"memory.min": "0", "memory.low": "0"}},
		{name: "reserved, Burstable", r: burstable, limits: podspec.Limits{ReserveMemory: true}, want: map[string]string{"memory.oom.group": "1", "memory.low": "1073741824"}},
		{name: "reserved, Guaranteed", r: guaranteed, limits: podspec.Limits{ReserveMemory: true}, want: map[string]string{"memory.oom.group": "1", "memory.min": "1073741824"}},
		{name: "throttled", r: burstable, limits: podspec.Limits{Throttling: 0.5}, want: map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0", "memory.high": "1610612736"}},
		{name: "Guaranteed is not throttled", r: guaranteed, limits: podspec.Limits{Throttling: 0.5}, want: none},
		{name: "throttled before the node is full", limits: podspec.Limits{Throttling: 0.5}, want: map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0", "memory.high": "2147483648"}},
		{name: "the pod is throttled as a whole", limits: podspec.Limits{Throttling: 0.5}, edit: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("memory", "2Gi")}
		}, want: none},
		{name: "no swap", r: burstable, limits: podspec.Limits{SwapController: true}, want: map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0", "memory.swap.max": "0"}},
		{name: "a share of swap", r: burstable, limits: podspec.Limits{SwapController: true, Swap: 4 << 30}, want: map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0", "memory.swap.max": "536870912"}},
		{name: "Guaranteed swaps nothing", r: guaranteed, limits: podspec.Limits{SwapController: true, Swap: 4 << 30}, want: map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0", "memory.swap.max": "0"}},
		{
			name: "critical pods swap nothing", r: burstable, limits: podspec.Limits{SwapController: true, Swap: 4 << 30},
			edit: func(p *corev1.Pod) { priority := int32(2_000_000_000); p.Spec.Priority = &priority },
			want: map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0", "memory.swap.max": "0"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := node()
			n.Limits, n.Limits.CgroupV2 = tt.limits, true
			n.Allocatable = amounts("memory", "4Gi")
			pod := web(onApp(func(c *corev1.Container) { c.Resources = tt.r }))
			pod.Annotations = nil // of an API server
			if tt.edit != nil {
				tt.edit(pod)
			}
			got := podspec.Resources(pod, &pod.Spec.Containers[0], n)
			if diff := cmp.Diff(tt.want, got.GetUnified()); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSwapOnVersion1(t *testing.T) {
	n := node()
	n.Limits = podspec.Limits{SwapController: true, Swap: 1 << 30}
	pod := web(onApp(func(c *corev1.Container) { c.Resources.Limits = amounts("memory", "1Gi") }))
	if got := podspec.Resources(pod, &pod.Spec.Containers[0], n); got.GetMemorySwapLimitInBytes() != 1<<30 || got.GetUnified() != nil {
		t.Errorf("memory and swap are %d, want no more than memory; unified is %v", got.GetMemorySwapLimitInBytes(), got.GetUnified())
	}
}

func TestHugePages(t *testing.T) {
	n := node()
	n.Limits.HugePages = []int64{64 << 10, 2 << 20, 1 << 30}
	pod := web(onApp(func(c *corev1.Container) { c.Resources.Limits = amounts("hugepages-2Mi", "8Mi") }))
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "16Mi", "hugepages-1Gi", "1Gi")}
	want := []*runtimeapi.HugepageLimit{{PageSize: "64KB"}, {PageSize: "2MB", Limit: 8 << 20}, {PageSize: "1GB", Limit: 1 << 30}}
	if diff := cmp.Diff(want, podspec.Resources(pod, &pod.Spec.Containers[0], n).GetHugepageLimits(), protocmp.Transform()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestResourcesOfThePod: a container without limits of its own has those of the pod.
func TestResourcesOfThePod(t *testing.T) {
	pod := web(func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "2", "memory", "1Gi")}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "250m"), Limits: amounts("memory", "64Mi")}})
		p.Spec.Overhead = amounts("cpu", "100m", "memory", "32Mi")
	})
	want := []*runtimeapi.LinuxContainerResources{
		{CpuPeriod: 100000, CpuQuota: 200000, CpuShares: 2048, MemoryLimitInBytes: 1 << 30, OomScoreAdj: 999},
		{CpuPeriod: 100000, CpuQuota: 200000, CpuShares: 256, MemoryLimitInBytes: 64 << 20, OomScoreAdj: 993},
	}
	for i := range pod.Spec.Containers {
		if diff := cmp.Diff(want[i], podspec.Resources(pod, &pod.Spec.Containers[i], node()), protocmp.Transform()); diff != "" {
			t.Errorf("container %d (-want +got):\n%s", i, diff)
		}
	}
	overhead, whole := podspec.SandboxResources(pod, node())
	if diff := cmp.Diff(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 10000, CpuShares: 102, MemoryLimitInBytes: 32 << 20}, overhead, protocmp.Transform()); diff != "" {
		t.Errorf("overhead (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 200000, CpuShares: 1024, MemoryLimitInBytes: 1 << 30}, whole, protocmp.Transform()); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
}

func TestPortsOfSidecars(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(n int32) []corev1.ContainerPort { return []corev1.ContainerPort{{ContainerPort: n}} }
	pod := web(onApp(func(c *corev1.Container) { c.Ports = port(80) }))
	pod.Spec.InitContainers = []corev1.Container{{Name: "i", Ports: port(1)}, {Name: "s", Ports: port(90), RestartPolicy: &always}}
	want := []*runtimeapi.PortMapping{{ContainerPort: 90}, {ContainerPort: 80}}
	if diff := cmp.Diff(want, sandbox(t, pod, node(), podspec.SandboxRun{}).Config.GetPortMappings(), protocmp.Transform()); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestStopSignal(t *testing.T) {
	for name, want := range map[corev1.Signal]runtimeapi.Signal{
		"SIGUSR1": runtimeapi.Signal_SIGNAL_SIGUSR1, "SIGRTMIN+3": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3, "SIGRTMAX-1": runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS1,
	} {
		pod := web(onApp(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{StopSignal: &name} }))
		if got := config(t, pod, node(), podspec.Run{}).Config.GetStopSignal(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
