//go:build linux

package cgroups_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// memoryV2 returns where memory is governed by cgroup v2; there is no protection and no
// throttling elsewhere.
func memoryV2(t *testing.T) cgroups.Mount {
	t.Helper()
	mounts, err := cgroups.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(mounts, func(m cgroups.Mount) bool { return m.V2 && slices.Contains(m.Controllers, "memory") })
	if i < 0 {
		t.Skip("memory is not governed by cgroup v2 on this machine")
	}
	return mounts[i]
}

// guardsOf reads what protects and throttles the memory of groups.
func guardsOf(t *testing.T, m cgroups.Mount, groups ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, group := range groups {
		var values []string
		for _, file := range []string{"memory.min", "memory.low", "memory.high"} {
			raw, err := os.ReadFile(filepath.Join(m.Path, group, file))
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, strings.TrimSpace(string(raw)))
		}
		out[filepath.Base(group)] = strings.Join(values, " ")
	}
	return out
}

// TestKernelMemoryIsGuarded has memory protected, and throttled, in the whole tree, and
// no more when the node is set up otherwise.
func TestKernelMemoryIsGuarded(t *testing.T) {
	m := memoryV2(t)
	tree, mounts := kernelTree(t, cgroups.Rules{ReserveMemory: true, Throttling: 0.5})
	guaranteed := newPod("g", corev1.PodQOSGuaranteed, amounts("cpu", "1", "memory", "16Mi"), amounts("cpu", "1", "memory", "16Mi"))
	burstable := newPod("b", corev1.PodQOSBurstable, nil, nil)
	burstable.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("memory", "32Mi"), Limits: amounts("memory", "96Mi")}
	pods := []*corev1.Pod{guaranteed, burstable}
	for _, pod := range pods {
		remove(t, tree, pod.UID)
		if err := tree.EnsurePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.SetActive(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	top := filepath.Dir(tree.Group(guaranteed))
	groups := []string{top, filepath.Join(top, "burstable"), filepath.Join(top, "besteffort"), tree.Group(guaranteed), tree.Group(burstable)}
	want := map[string]string{
		"kubepods":   fmt.Sprintf("%d %d max", 48<<20, 32<<20),
		"burstable":  fmt.Sprintf("0 %d max", 32<<20),
		"besteffort": "0 0 max",
		"podg":       fmt.Sprintf("%d 0 max", 16<<20),
		"podb":       fmt.Sprintf("0 %d %d", 32<<20, 64<<20),
	}
	if diff := cmp.Diff(want, guardsOf(t, m, groups...)); diff != "" {
		t.Errorf("memory.min, low and high (-want +got):\n%s", diff)
	}
	cmd := join(t, mounts, tree.Group(burstable), "eat 80") // more than the mark, less than the limit
	start(t, cmd, "in")
	late := time.After(2 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for throttled := false; !throttled; {
		raw, err := os.ReadFile(filepath.Join(m.Path, tree.Group(burstable), "memory.events"))
		if err != nil {
			t.Fatal(err)
		}
		throttled = event(string(raw), "high") > 0
		select {
		case <-late:
			t.Fatalf("the kernel did not throttle: %s", raw)
		case <-tick.C:
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	// With another configuration nothing of it is left.
	plain, err := cgroups.New(cgroups.Config{Mounts: mounts, Root: filepath.Dir(top), Class: classOf})
	if err == nil {
		err = plain.Setup(t.Context())
	}
	for _, pod := range pods {
		if err == nil {
			err = plain.EnsurePod(t.Context(), pod)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for group, got := range guardsOf(t, m, groups...) {
		if got != "0 0 max" {
			t.Errorf("%s still has %s", group, got)
		}
	}
}

// event returns a count of a file of events.
func event(content, name string) int {
	for line := range strings.Lines(content) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	return 0
}
