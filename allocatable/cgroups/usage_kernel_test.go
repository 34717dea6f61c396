//go:build linux

package cgroups_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

func TestKernelUsage(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{})
	pod := newPod("u5", corev1.PodQOSBurstable, nil, amounts("memory", "128Mi"))
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	remove(t, tree, pod.UID)
	cmd := join(t, mounts, tree.Parent(pod), "hold 32")
	start(t, cmd, "ate")
	got, err := tree.PodUsage(pod.UID)
	if err != nil || got.Memory < 32<<20 || got.Memory > 128<<20 || got.MemoryLimit != 128<<20 || got.Processes < 1 {
		t.Errorf("the pod uses %+v (%v), want 32 to 128 MiB of 128, and a process", got, err)
	}
	all, err := tree.PodsUsage()
	if err != nil || all.Memory < got.Memory {
		t.Errorf("all pods use %+v (%v), one of them %+v", all, err, got)
	}
	machine, err := tree.MachineUsage()
	if err != nil || machine.Memory < all.Memory/2 {
		t.Errorf("the machine uses %+v (%v), its pods %+v", machine, err, all)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

func TestKernelMemoryPassesAMark(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{})
	pod := newPod("u6", corev1.PodQOSBurstable, nil, nil)
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	remove(t, tree, pod.UID)
	before, err := tree.PodsUsage()
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = tree.AwaitPodsMemory(short, before.Memory+1<<40)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a mark that is never passed ended with %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	passed := make(chan error, 1)
	go func() { passed <- tree.AwaitPodsMemory(ctx, before.Memory+16<<20) }()
	for done := false; !done; { // the mark may be set after the first process has eaten
		cmd := join(t, mounts, tree.Parent(pod), "hold 64")
		start(t, cmd, "ate")
		select {
		case err := <-passed:
			if err != nil {
				t.Errorf("64 MiB passed no mark at 16 MiB: %v", err)
			}
			done = true
		case <-time.After(3 * time.Second):
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func TestKernelAllPodsAreHeldToALimit(t *testing.T) {
	tree, mounts := kernelTree(t, cgroups.Rules{})
	pod := newPod("u7", corev1.PodQOSBestEffort, nil, nil)
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	remove(t, tree, pod.UID)
	if err := tree.EnforcePods(t.Context(), amounts("memory", "64Mi", "cpu", "1")); err != nil {
		t.Fatal(err)
	}
	if out, err := join(t, mounts, tree.Parent(pod), "eat 256").CombinedOutput(); err == nil {
		t.Errorf("256 MiB were taken of 64: %s", out)
	}
	if err := tree.EnforcePods(t.Context(), amounts("memory", "512Mi")); err != nil {
		t.Fatal(err)
	}
	if out, err := join(t, mounts, tree.Parent(pod), "eat 256").CombinedOutput(); err != nil {
		t.Errorf("256 MiB were not to be had of 512: %v: %s", err, out)
	}
	cmd := join(t, mounts, tree.Parent(pod), "hold 64")
	start(t, cmd, "ate")
	if err := tree.EnforcePods(t.Context(), amounts("memory", "16Mi")); err == nil {
		t.Error("a limit below what the pods use was taken")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("the process is dead: %v", err)
	}
	_ = cmd.Wait()
}
