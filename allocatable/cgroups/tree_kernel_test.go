package cgroups_test

import (
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

// join returns a shell command that runs in a child of a group in every hierarchy with
// limits, as the process of a container does.
func join(t *testing.T, mounts []cgroups.Mount, group, script string) *exec.Cmd {
	t.Helper()
	var b strings.Builder
	for _, m := range mounts {
		dir := filepath.Join(m.Path, group)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		child := filepath.Join(dir, "c1")
		if err := os.MkdirAll(child, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // v1 starts without any
			if raw, err := os.ReadFile(filepath.Join(dir, file)); err == nil && !m.V2 {
				if err := os.WriteFile(filepath.Join(child, file), raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		fmt.Fprintf(&b, "echo $$ > %s/cgroup.procs && ", child)
	}
	return exec.CommandContext(t.Context(), "sh", "-c", b.String()+script)
}

func TestKernelLimitsHold(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{PodPids: 8})
	pod := newPod("u1", corev1.PodQOSBurstable, amounts("cpu", "100m"), amounts("cpu", "200m", "memory", "32Mi"))
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemovePod(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
	})
	t.Run("a fifth of a CPU", func(t *testing.T) {
		began := time.Now()
		cmd := join(t, mounts, tree.Parent(pod), "exec timeout 1 sh -c 'while :; do :; done'")
		_ = cmd.Run() // ends by its time-out
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if took := time.Since(began); took < time.Second || used > took/2 {
			t.Errorf("with a limit of 200m, %s of CPU were used in %s", used, took)
		}
	})
	tests := []struct {
		name, script string
		wantEnd      bool // by itself, with success
	}{
		{name: "little memory", script: "head -c 8M /dev/zero | tail -c 8M >/dev/null", wantEnd: true},
		{name: "too much memory", script: "exec head -c 128M /dev/zero | tail -c 128M >/dev/null", wantEnd: false},
		{name: "few processes", script: "for i in 1 2 3; do sleep 0.1 & done; wait", wantEnd: true},
		{name: "too many processes", script: "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait", wantEnd: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := join(t, mounts, tree.Parent(pod), "set -e; "+tt.script).CombinedOutput()
			if (err == nil) != tt.wantEnd {
				t.Errorf("command ended with %v, want success %v: %s", err, tt.wantEnd, out)
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
	cmd := join(t, mounts, tree.Parent(pod), "echo in; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatalf("the process did not get in: %v", err)
	}
	if err := tree.StarvePod(t.Context(), pod.UID); err != nil {
		t.Errorf("StarvePod: %v", err)
	}
	if err := tree.RemovePod(t.Context(), pod.UID); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v, want killed", err)
	}
	left, err := tree.Pods()
	if err != nil || len(left) > 0 {
		t.Errorf("pods %v are left (%v), want none", left, err)
	}
	if err := tree.RemovePod(t.Context(), pod.UID); err != nil {
		t.Errorf("removed a second time: %v", err)
	}
}

// TestKernelResize shrinks and grows a pod under way; below its use it keeps the limit
// it has.
func TestKernelResize(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{})
	pod := newPod("u3", corev1.PodQOSGuaranteed, amounts("cpu", "1", "memory", "64Mi"), amounts("cpu", "1", "memory", "64Mi"))
	t.Cleanup(func() { _ = tree.RemovePod(t.Context(), pod.UID) })
	set := func(memory string) error {
		r := amounts("cpu", "500m", "memory", memory)
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: r, Limits: r}
		return tree.EnsurePod(t.Context(), pod)
	}
	for _, memory := range []string{"64Mi", "128Mi", "32Mi"} {
		if err := set(memory); err != nil {
			t.Fatalf("set memory to %s: %v", memory, err)
		}
		if got, want := memoryLimit(t, mounts, tree.Parent(pod)), amounts("m", memory)["m"]; got != fmt.Sprint(want.Value()) {
			t.Errorf("limit is %s, want %s", got, memory)
		}
	}
	cmd := join(t, mounts, tree.Parent(pod), "x=$(head -c 8M /dev/zero | tr '\\0' x); echo in; sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatalf("the process did not take its memory: %v", err)
	}
	if err := set("1Mi"); err == nil {
		t.Error("a limit below the use was taken")
	}
	if got := memoryLimit(t, mounts, tree.Parent(pod)); got != "33554432" {
		t.Errorf("limit is %s after one that was refused, want the former", got)
	}
	if err := tree.RemovePod(t.Context(), types.UID("u3")); err != nil {
		t.Error(err)
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
