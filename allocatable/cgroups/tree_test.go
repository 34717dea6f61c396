//go:build linux

package cgroups_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// fakeV2 makes a directory that looks like cgroup v2 with the groups a test will make
// already in it, each with the file that the kernel would make.
func fakeV2(t *testing.T, groups ...string) cgroups.Mount {
	t.Helper()
	oci.TestMode = true // lets files be made that the kernel would make
	t.Cleanup(func() { oci.TestMode = false })
	m := cgroups.Mount{Path: t.TempDir(), V2: true, Controllers: []string{"cpuset", "cpu", "io", "memory", "hugetlb", "pids"}}
	for _, g := range groups {
		dir := filepath.Join(m.Path, g)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpuset cpu memory hugetlb pids\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// files returns the content of every file below a directory but the ones of
// controllers and huge pages, whose sizes are the machine's.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "cgroup.controllers" || strings.HasPrefix(e.Name(), "hugetlb.") {
			return err
		}
		raw, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, root+"/")] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func classOf(pod *corev1.Pod) corev1.PodQOSClass { return pod.Status.QOSClass }

func newPod(uid types.UID, class corev1.PodQOSClass, requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container("app", requests, limits)}},
		Status:     corev1.PodStatus{QOSClass: class},
	}
}

func newTree(t *testing.T, cfg cgroups.Config) *cgroups.Tree {
	t.Helper()
	cfg.Class = classOf
	tree, err := cgroups.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

const handedDown = "+cpu +cpuset +memory +hugetlb +pids"

func TestPodOnVersion2(t *testing.T) {
	m := fakeV2(t, "edge", "edge/kubepods", "edge/kubepods/burstable", "edge/kubepods/burstable/podu1")
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}, Root: "/edge", Rules: cgroups.Rules{PodPids: 64, ReserveMemory: true}})
	pod := newPod("u1", corev1.PodQOSBurstable, amounts("cpu", "1", "memory", "64Mi"), amounts("cpu", "2", "memory", "128Mi"))
	if got, want := tree.Parent(pod), "/edge/kubepods/burstable/podu1"; got != want {
		t.Errorf("Parent = %s, want %s", got, want)
	}
	if got, want := tree.PodsGroup(), "/edge/kubepods"; got != want {
		t.Errorf("PodsGroup = %s, want %s", got, want)
	}
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cgroup.subtree_control":                         handedDown,
		"edge/cgroup.subtree_control":                    handedDown,
		"edge/kubepods/cgroup.subtree_control":           handedDown,
		"edge/kubepods/burstable/cgroup.subtree_control": handedDown,
		"edge/kubepods/burstable/podu1/cpu.max":          "200000 100000",
		"edge/kubepods/burstable/podu1/cpu.weight":       "39",
		"edge/kubepods/burstable/podu1/memory.max":       "134217728",
		"edge/kubepods/burstable/podu1/memory.min":       "0",
		"edge/kubepods/burstable/podu1/memory.low":       "67108864",
		"edge/kubepods/burstable/podu1/memory.high":      "max",
		"edge/kubepods/burstable/podu1/pids.max":         "64",
	}
	if diff := cmp.Diff(want, files(t, m.Path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	pod.Spec.Containers[0].Resources.Limits = nil
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	got := files(t, m.Path)
	if got["edge/kubepods/burstable/podu1/cpu.max"] != "max 100000" || got["edge/kubepods/burstable/podu1/memory.max"] != "max" {
		t.Errorf("limits after they were lifted are %v", got)
	}
}

func TestClassesOnVersion2(t *testing.T) {
	m := fakeV2(t, "kubepods", "kubepods/burstable", "kubepods/besteffort")
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}, Rules: cgroups.Rules{ReserveMemory: true}})
	if err := tree.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(t, m.Path); got["kubepods/besteffort/cpu.weight"] != "1" || got["kubepods/burstable/cpu.weight"] != "" {
		t.Errorf("weights after Setup are %v, want only that of BestEffort set", got)
	}
	active := []*corev1.Pod{
		newPod("u1", corev1.PodQOSBurstable, amounts("cpu", "1", "memory", "1Gi"), nil),
		newPod("u2", corev1.PodQOSBurstable, amounts("cpu", "1"), nil),
		newPod("u3", corev1.PodQOSGuaranteed, amounts("cpu", "4", "memory", "2Gi"), nil),
		newPod("u4", corev1.PodQOSBestEffort, nil, nil),
	}
	if err := tree.SetActive(t.Context(), active); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cgroup.subtree_control":          handedDown,
		"kubepods/cgroup.subtree_control": handedDown,
		"kubepods/memory.min":             "3221225472",
		"kubepods/memory.low":             "1073741824",
		"kubepods/burstable/cpu.weight":   "79",
		"kubepods/burstable/memory.low":   "1073741824",
		"kubepods/besteffort/cpu.weight":  "1",
	}
	if diff := cmp.Diff(want, files(t, m.Path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestOrphansAreFound(t *testing.T) {
	m := fakeV2(t, "kubepods/podu1", "kubepods/burstable/podu2", "kubepods/besteffort/podu3/0123", "kubepods/besteffort/other")
	v1 := cgroups.Mount{Path: t.TempDir(), Controllers: []string{"memory"}}
	if err := os.MkdirAll(filepath.Join(v1.Path, "kubepods/besteffort/podu4"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m, v1}})
	got, err := tree.Pods()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]types.UID{"u1", "u2", "u3", "u4"}, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestBadConfig(t *testing.T) {
	memory := []cgroups.Mount{{Path: "/none", V2: true, Controllers: []string{"memory"}}}
	tests := []struct {
		name string
		cfg  cgroups.Config
		want string
	}{
		{name: "no class", cfg: cgroups.Config{Mounts: memory}, want: "cgroups: Config.Class is nil, want the function that tells the class of a pod"},
		{name: "no memory", cfg: cgroups.Config{Class: classOf}, want: "cgroups: Config.Mounts has no hierarchy with the memory controller: mount cgroup v1 or v2"},
		{name: "root", cfg: cgroups.Config{Class: classOf, Mounts: memory, Root: "/a/../.."}, want: `cgroups: Config.Root is "/a/../..", want a path without ".."`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := cgroups.New(tt.cfg); err == nil || err.Error() != tt.want {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

func TestUIDsThatLeadElsewhere(t *testing.T) {
	m := fakeV2(t, "kubepods")
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}})
	if err := tree.EnsurePod(t.Context(), newPod("../x", corev1.PodQOSGuaranteed, nil, nil)); err == nil {
		t.Error("EnsurePod of a UID with a slash: no error")
	}
	if err := tree.RemovePod(t.Context(), "../kubepods"); err != nil {
		t.Errorf("RemovePod of a UID with a slash: %v", err)
	}
	if _, err := os.Stat(filepath.Join(m.Path, "kubepods")); err != nil {
		t.Error("RemovePod removed a stranger")
	}
}

// TestPodWithCPUsOfItsOwnHasNoQuota: it has all the time there is on them.
func TestPodWithCPUsOfItsOwnHasNoQuota(t *testing.T) {
	m := fakeV2(t, "kubepods", "kubepods/podu1")
	pinned := true
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}, Pinned: func(*corev1.Pod) bool { return pinned }})
	pod := newPod("u1", corev1.PodQOSGuaranteed, amounts("cpu", "2", "memory", "64Mi"), amounts("cpu", "2", "memory", "64Mi"))
	for _, want := range []string{"max 100000", "200000 100000"} {
		if err := tree.EnsurePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if got := files(t, m.Path)["kubepods/podu1/cpu.max"]; got != want {
			t.Errorf("with CPUs of its own %v, the quota is %q, want %q", pinned, got, want)
		}
		pinned = false
	}
}
