//go:build linux

package cgroups_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// kernelTree returns a tree of this machine's hierarchies below a root of its own, and
// removes that afterwards.
func kernelTree(t *testing.T, rules cgroups.Rules) (*cgroups.Tree, []cgroups.Mount) {
	t.Helper()
	mounts, err := cgroups.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	root := fmt.Sprintf("/nodekit-test-%d", os.Getpid())
	tree, err := cgroups.New(cgroups.Config{Mounts: mounts, Root: root, Class: classOf, Rules: rules})
	if err == nil {
		err = tree.Setup(t.Context())
	}
	if err != nil {
		if os.Getenv("REQUIRE_KERNEL") == "1" {
			t.Fatal(err)
		}
		t.Skipf("control groups cannot be written (REQUIRE_KERNEL=1 makes this a failure): %v", err)
	}
	t.Cleanup(func() {
		for _, m := range mounts {
			for _, group := range []string{"kubepods/burstable", "kubepods/besteffort", "kubepods", ""} {
				if err := os.Remove(filepath.Join(m.Path, root, group)); err != nil && !os.IsNotExist(err) {
					t.Errorf("something is left: %v", err)
				}
			}
		}
	})
	return tree, mounts
}

// remove removes a pod when the test ends.
func remove(t *testing.T, tree *cgroups.Tree, uid types.UID) {
	t.Helper()
	t.Cleanup(func() {
		if err := tree.RemovePod(context.WithoutCancel(t.Context()), uid); err != nil {
			t.Error(err)
		}
	})
}

// start starts a process and waits until it has said a word.
func start(t *testing.T, cmd *exec.Cmd, word string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), word) {
			return
		}
	}
	t.Fatalf("the process ended without a word: %v", cmd.Wait())
}

func TestKernelLimitsHold(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{PodPids: 32})
	pod := newPod("u1", corev1.PodQOSBurstable, amounts("cpu", "100m"), amounts("cpu", "200m", "memory", "64Mi"))
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	remove(t, tree, pod.UID)
	t.Run("a fifth of a CPU", func(t *testing.T) {
		began := time.Now()
		cmd := join(t, mounts, tree.Parent(pod), "burn")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if took := time.Since(began); took < time.Second || used > took/2 {
			t.Errorf("with a limit of 200m, %s of CPU were used in %s", used, took)
		}
	})
	tests := []struct {
		name, task string
		wantEnd    bool // by itself, with success
	}{
		{name: "little memory", task: "eat 16", wantEnd: true},
		{name: "too much memory", task: "eat 256", wantEnd: false},
		{name: "few processes", task: "spawn 3", wantEnd: true},
		{name: "too many processes", task: "spawn 64", wantEnd: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := join(t, mounts, tree.Parent(pod), tt.task).CombinedOutput()
			if (err == nil) != tt.wantEnd {
				t.Errorf("process ended with %v, want success %v: %s", err, tt.wantEnd, out)
			}
		})
	}
}

func TestKernelWhatIsLeftIsKilledAndRemoved(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{})
	pod := newPod("u2", corev1.PodQOSBestEffort, nil, nil)
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	remove(t, tree, pod.UID)
	cmd := join(t, mounts, tree.Parent(pod), "hold 1")
	start(t, cmd, "ate")
	if err := tree.CollectPod(t.Context(), pod.UID); err != nil {
		t.Errorf("CollectPod: %v", err)
	}
	if left, err := tree.Pods(); err != nil || len(left) != 1 {
		t.Errorf("CollectPod removed a group that is in use: %v (%v)", left, err)
	}
	removed := make(chan error, 1)
	go func() { removed <- tree.RemovePod(t.Context(), pod.UID) }()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v, want killed", err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	left, err := tree.Pods()
	if err != nil || len(left) > 0 {
		t.Errorf("pods %v are left (%v), want none", left, err)
	}
	if err := tree.RemovePod(t.Context(), pod.UID); err != nil {
		t.Errorf("removed a second time: %v", err)
	}
}

func TestKernelEmptyGroupsAreCollected(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{})
	pod := newPod("u4", corev1.PodQOSBurstable, amounts("cpu", "1"), nil)
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	remove(t, tree, pod.UID)
	if out, err := join(t, mounts, tree.Parent(pod), "eat 1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := tree.CollectPod(t.Context(), pod.UID); err != nil {
		t.Error(err)
	}
	if left, err := tree.Pods(); err != nil || len(left) > 0 {
		t.Errorf("pods %v are left (%v), want none", left, err)
	}
}

// TestKernelResize shrinks and grows a pod under way; below its use it keeps the limit
// it has.
func TestKernelResize(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{})
	pod := newPod("u3", corev1.PodQOSGuaranteed, nil, nil)
	remove(t, tree, pod.UID)
	set := func(memory string) error {
		r := amounts("cpu", "500m", "memory", memory)
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: r, Limits: r}
		return tree.EnsurePod(t.Context(), pod)
	}
	for _, memory := range []string{"64Mi", "128Mi", "96Mi"} {
		if err := set(memory); err != nil {
			t.Fatalf("set memory to %s: %v", memory, err)
		}
		if got, want := memoryLimit(t, mounts, tree.Parent(pod)), amounts("m", memory)["m"]; got != fmt.Sprint(want.Value()) {
			t.Errorf("limit is %s, want %s", got, memory)
		}
	}
	cmd := join(t, mounts, tree.Parent(pod), "hold 32")
	start(t, cmd, "ate")
	if err := set("1Mi"); err == nil {
		t.Error("a limit below the use was taken")
	}
	if got := memoryLimit(t, mounts, tree.Parent(pod)); got != "100663296" {
		t.Errorf("limit is %s after one that was refused, want the former", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("the process is dead: %v", err)
	}
	_ = cmd.Wait()
}

func memoryLimit(t *testing.T, mounts []cgroups.Mount, group string) string {
	t.Helper()
	for _, m := range mounts {
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			if raw, err := os.ReadFile(filepath.Join(m.Path, group, file)); err == nil {
				return strings.TrimSpace(string(raw))
			}
		}
	}
	t.Fatal("no hierarchy limits memory")
	return ""
}
