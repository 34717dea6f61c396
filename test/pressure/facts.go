package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

const mib = 1 << 20

// V2 reports whether memory is governed by control groups of version 2 on this machine.
func V2() bool {
	_, err := os.Stat("/sys/fs/cgroup/memory")
	return err != nil
}

// group returns the directory of a control group in the hierarchy of a controller.
func group(controller, path string) string {
	if V2() {
		return filepath.Join("/sys/fs/cgroup", path)
	}
	return filepath.Join("/sys/fs/cgroup", controller, path)
}

// read returns what files of groups have, by the names that they are wanted by: the
// controller, the path and the file.
func read(tb testing.TB, want map[string]string) map[string]string {
	tb.Helper()
	got := map[string]string{}
	for name := range want {
		controller, path, _ := strings.Cut(name, ":")
		raw, err := os.ReadFile(group(controller, path))
		if err != nil {
			tb.Errorf("%v", err)
		}
		got[name] = strings.TrimSpace(string(raw))
	}
	return got
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// guarded has the node protect the memory that pods request, and throttle those on the
// way to their limits.
func guarded(k *kubeletconfig.KubeletConfiguration) {
	k.MemoryReservationPolicy = kubeletconfig.TieredReservationMemoryReservationPolicy
	k.MemoryThrottlingFactor = new(0.5)
	k.PodPidsLimit = new(int64(200))
}

// Limits checks that pods have the control groups and the limits that they ask for, those
// of the pod and those of its container, and see them.
func Limits(tb testing.TB, cfg Config) {
	tb.Helper()
	n := Start(tb, cfg, guarded)
	burstable := pod("burstable", "-see", "-memory", "8")
	burstable.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("100m", "24Mi"), Limits: list("250m", "48Mi")}
	whole := pod("whole", "-see", "-memory", "8")
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: list("200m", "32Mi"), Limits: list("500m", "64Mi")}
	n.Run(burstable, whole)
	for _, p := range []*corev1.Pod{burstable, whole} {
		n.awaitLog(p, "took")
	}
	if got := n.awaitLog(burstable, "limit"); got != fmt.Sprint(48*mib) {
		tb.Errorf("the container sees a limit of %s, want 48Mi", got)
	}
	top := cfg.CgroupRoot + "/kubepods/burstable/pod"
	facts := facts1
	if V2() {
		facts = facts2
	}
	for _, p := range []*corev1.Pod{burstable, whole} {
		want := map[string]string{}
		for _, line := range facts[p.Name] {
			file, value, _ := strings.Cut(line, " ")
			controller, _, _ := strings.Cut(file, ".")
			want[controller+":"+top+string(p.UID)+"/"+file] = value
		}
		if diff := cmp.Diff(want, read(tb, want)); diff != "" {
			tb.Errorf("control group of pod %s (-want +got):\n%s", p.Name, diff)
		}
	}
	if V2() {
		n.containerGuards(burstable)
	}
}

// facts1 and facts2 are the files of pods' groups, by the version of control groups. 100m
// are 102 shares of 1024, or a weight of 4 of 10000; a memory limit in bytes is a whole
// number of pages.
var (
	facts1 = map[string][]string{
		"burstable": {"cpu.shares 102", "cpu.cfs_quota_us 25000", "memory.limit_in_bytes 50331648", "pids.max 200"},
		"whole":     {"cpu.shares 204", "cpu.cfs_quota_us 50000", "memory.limit_in_bytes 67108864", "pids.max 200"},
	}
	facts2 = map[string][]string{
		"burstable": {
			"cpu.weight 4", "cpu.max 25000 100000", "memory.max 50331648", "pids.max 200",
			"memory.low 25165824", "memory.min 0", "memory.high max",
		},
		"whole": {
			"cpu.weight 8", "cpu.max 50000 100000", "memory.max 67108864", "pids.max 200",
			"memory.low 33554432", "memory.min 0", "memory.high 50331648",
		},
	}
)

// containerGuards checks how the memory of a pod's container is protected and throttled:
// that is the runtime's work.
func (n *Node) containerGuards(p *corev1.Pod) {
	n.tb.Helper()
	groups, err := filepath.Glob(group("memory", n.cfg.CgroupRoot+"/kubepods/burstable/pod"+string(p.UID)+"/*/memory.high"))
	if err != nil {
		n.tb.Fatal(err)
	}
	var found []string
	for _, file := range groups {
		high, err1 := os.ReadFile(file)
		low, err2 := os.ReadFile(filepath.Join(filepath.Dir(file), "memory.low"))
		if err1 == nil && err2 == nil {
			found = append(found, strings.TrimSpace(string(low))+" "+strings.TrimSpace(string(high)))
		}
	}
	// The sandbox's own container has neither.
	if want := fmt.Sprintf("%d %d", 24*mib, 36*mib); !strings.Contains(strings.Join(found, "\n"), want) {
		n.tb.Errorf("memory.low and memory.high of the pod's containers are %q, want one with %q", found, want)
	}
}

// OutOfMemory checks what becomes of containers that take more than their limit: the
// status says why they ended, and with control groups of version 2 a child takes the whole
// container with it.
func OutOfMemory(tb testing.TB, cfg Config) {
	tb.Helper()
	n := Start(tb, cfg)
	n.Run(limited("alone", "-memory", "96"), limited("child", "-child", "-memory", "96"))
	n.awaitKilled("alone")
	if V2() {
		n.awaitKilled("child")
	} else {
		n.awaitSurvivor("child")
	}
}

// ChildOutOfMemory checks that a node that is told so has single processes killed.
func ChildOutOfMemory(tb testing.TB, cfg Config) {
	tb.Helper()
	n := Start(tb, cfg, func(k *kubeletconfig.KubeletConfiguration) { k.SingleProcessOOMKill = new(true) })
	n.Run(limited("single", "-child", "-memory", "96"))
	n.awaitSurvivor("single")
}

// limited returns a pod with little memory, which starts again when it is killed: a runtime
// may learn of the end before it learns why, once.
func limited(name string, args ...string) *corev1.Pod {
	p := pod(name, args...)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list("500m", "32Mi"), Requests: list("10m", "16Mi")}
	return p
}

func (n *Node) awaitKilled(name string) {
	n.tb.Helper()
	n.await(name, "was killed for want of memory, OOMKilled with exit code 137", func(p *corev1.Pod) bool {
		if len(p.Status.ContainerStatuses) == 0 {
			return false
		}
		s := &p.Status.ContainerStatuses[0]
		return slices.ContainsFunc([]*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated},
			func(end *corev1.ContainerStateTerminated) bool {
				return end != nil && end.Reason == "OOMKilled" && end.ExitCode == 137
			})
	})
}

func (n *Node) awaitSurvivor(name string) {
	n.tb.Helper()
	p := n.await(name, "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if got := n.awaitLog(p, "child"); got != "signal: killed" {
		n.tb.Errorf("the child ended with %q, want killed", got)
	}
	p = n.await(name, "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if s := p.Status.ContainerStatuses[0]; s.State.Running == nil || s.RestartCount != 0 {
		n.tb.Errorf("container of pod %s is %v, want the first run of it", name, s.State)
	}
}

// machineMemory is the memory of the machine in bytes.
func machineMemory(tb testing.TB) int64 {
	tb.Helper()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		tb.Fatal(err)
	}
	return int64(info.Totalram) * int64(info.Unit) //nolint:gosec // far below 1<<63
}
