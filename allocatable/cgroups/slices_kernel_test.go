//go:build linux

package cgroups_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// TestKernelPodInSlices has the groups of this machine named as systemd does, by one that
// is only played: what it would do to the hierarchies is left to the package.
func TestKernelPodInSlices(t *testing.T) {
	kernelTree(t, cgroups.Rules{}) // or the test is skipped
	mounts, err := cgroups.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	s := newSystemd(t)
	root := fmt.Sprintf("nodekittest%d", os.Getpid())
	tree, err := cgroups.New(cgroups.Config{Mounts: mounts, Root: root, Class: classOf, Slices: slicesOf(s)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		top := root + ".slice/" + root + "-kubepods.slice/"
		for _, m := range mounts {
			for _, dir := range []string{top + root + "-kubepods-burstable.slice", top + root + "-kubepods-besteffort.slice", top, root + ".slice"} {
				if err := os.Remove(filepath.Join(m.Path, dir)); err != nil && !os.IsNotExist(err) {
					t.Errorf("something is left: %v", err)
				}
			}
		}
	})
	if err := tree.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := newPod("1a-2b", corev1.PodQOSBurstable, amounts("cpu", "100m"), amounts("cpu", "1", "memory", "64Mi"))
	remove(t, tree, pod.UID)
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	name := tree.Parent(pod)
	if want := root + "-kubepods-burstable-pod1a_2b.slice"; name != want || s.unit(name) == nil {
		t.Errorf("the pod is in %s, want the unit %s; systemd has %v", name, want, s.unit(name))
	}
	if got := memoryLimit(t, mounts, tree.Group(pod)); got != "67108864" {
		t.Errorf("limit is %s, want 64Mi", got)
	}
	if out, err := join(t, mounts, tree.Group(pod), "eat 256").CombinedOutput(); err == nil {
		t.Errorf("a process took four times the memory of its pod: %s", out)
	}
	cmd := join(t, mounts, tree.Group(pod), "hold 1")
	start(t, cmd, "ate")
	if used, err := tree.PodUsage(pod.UID); err != nil || used.Memory < 1<<20 || used.MemoryLimit != 64<<20 {
		t.Errorf("usage is %+v (%v), want a MiB at least, and the limit", used, err)
	}
	removed := make(chan error, 1)
	go func() { removed <- tree.RemovePod(t.Context(), pod.UID) }()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v, want killed", err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if left, err := tree.Pods(); err != nil || len(left) > 0 || s.unit(name) != nil {
		t.Errorf("pods %v are left (%v), and unit %v", left, err, s.unit(name))
	}
}
