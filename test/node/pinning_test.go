package node_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/pinning"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// pinningSettings have the kubelet give CPUs and memory to containers, and keep CPU 0 and
// 256 MiB for itself. 100 MiB of these are kept from pods by the node.
func pinningSettings() map[string]any {
	return map[string]any{
		"cpuManagerPolicy": "static", "cpuManagerReconcilePeriod": "1s", "reservedSystemCPUs": "0",
		"memoryManagerPolicy": "Static", "kubeReserved": map[string]string{"memory": "156Mi"},
		"reservedMemory":        []any{map[string]any{"numaNode": 0, "limits": map[string]string{"memory": "256Mi"}}},
		"topologyManagerPolicy": "single-numa-node",
	}
}

// startPinning starts a kubelet that gives CPUs to containers, and forgets in the end which.
func startPinning(t *testing.T) *agent {
	t.Helper()
	s := useNode(t)
	if n := goruntime.NumCPU(); n < 2 {
		t.Skipf("the machine has %d CPU, want two", n)
	}
	forget := func() {
		for _, name := range []string{pinning.CPUFile, pinning.MemoryFile} {
			if err := os.Remove(filepath.Join(s.KubeletRoot(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	}
	forget()
	t.Cleanup(forget)
	return startAgentWith(t, s, pinningSettings())
}

// newPinnedPod returns a pod with a CPU of its own.
func newPinnedPod(name string) *corev1.Pod {
	pod := newPod(name)
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	return pod
}

// allowed returns a list that the kernel has of a process, such as Cpus_allowed_list.
func allowed(pid int, list string) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, list+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("process %d has no %s", pid, list))
}

// cpusOf returns the CPUs that the container of a pod runs on.
func (a *agent) cpusOf(pod string) pinning.CPUSet {
	a.t.Helper()
	list, err := allowed(a.instances()[podName(pod)].PID, "Cpus_allowed_list")
	if err != nil {
		a.t.Fatal(err)
	}
	cpus, err := pinning.ParseCPUSet(list)
	if err != nil {
		a.t.Fatal(err)
	}
	return cpus
}

// waitCPUs waits until the containers of pods run on these CPUs.
func (a *agent) waitCPUs(want map[string]string) {
	a.t.Helper()
	a.eventually("the containers run on their CPUs", func(context.Context) error {
		running := a.instances()
		got := map[string]string{}
		for name := range want {
			cpus, err := allowed(running[podName(name)].PID, "Cpus_allowed_list")
			if err != nil {
				return err
			}
			got[name] = cpus
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New("CPUs (-want +got):\n" + diff)
		}
		return nil
	})
}

// TestContainerHasItsCPUToItself has a container with a CPU of its own beside one without:
// also after the kubelet is killed, and until the pod ends.
func TestContainerHasItsCPUToItself(t *testing.T) {
	a := startPinning(t)
	a.runPod(newPod("shares"))
	a.waitReady("shares")
	all := a.cpusOf("shares")
	a.runPod(newPinnedPod("pinned"))
	a.waitReady("pinned")
	own := a.cpusOf("pinned")
	if own.Len() != 1 || own.Has(0) || own.Without(all).Len() != 0 {
		t.Fatalf("of CPUs %s the container has %s to itself, want one that is not reserved", all, own)
	}
	rest := all.Without(own).String()
	a.waitCPUs(map[string]string{"shares": rest, "pinned": own.String()})
	a.runPod(newPod("later"))
	a.waitReady("later")
	before := a.instances()
	a.checkPinned(before[podName("pinned")])

	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	a.start()
	for _, name := range []string{"shares", "pinned", "later"} {
		a.waitReady(name)
	}
	a.waitCPUs(map[string]string{"shares": rest, "pinned": own.String(), "later": rest})
	if diff := cmp.Diff(before, a.instances()); diff != "" {
		t.Errorf("containers after the kubelet was killed (-before +after):\n%s", diff)
	}
	a.removePod("pinned")
	a.waitGone("pinned")
	a.waitCPUs(map[string]string{"shares": all.String(), "later": all.String()})
}

// checkPinned looks at what else a container with a CPU of its own has.
func (a *agent) checkPinned(c instance) {
	a.t.Helper()
	mems, err := allowed(c.PID, "Mems_allowed_list")
	if err != nil || mems != "0" {
		a.t.Errorf("memory of NUMA nodes %q, want 0 (%v)", mems, err)
	}
	limits, err := testnode.ReadLimits(c.PID)
	if err != nil || limits.CPUQuota > 0 {
		a.t.Errorf("a container with a CPU of its own has a quota of %s of it (%v)", limits.CPUQuota, err)
	}
}
