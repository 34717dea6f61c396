//go:build linux

package volume_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// makeBlockDevice makes a node for a block device that need not exist.
func makeBlockDevice(path string) error {
	const loop = 7 // the major number of loop devices
	return unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loop, 0)))
}

// withGroup lets a group own the volumes of a pod.
func withGroup(p *corev1.Pod, gid int64) *corev1.Pod {
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &gid}
	return p
}

// modeAndGroup fails the test unless a file has a mode and a group.
func modeAndGroup(tb testing.TB, path string, mode fs.FileMode, gid uint32) {
	tb.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		tb.Error(err)
		return
	}
	if _, got := ids(info); info.Mode() != mode || got != gid {
		tb.Errorf("%s is %v of group %d, want %v of %d", path, info.Mode(), got, mode, gid)
	}
}

// ids returns the user and the group of a file.
func ids(info fs.FileInfo) (uid, gid uint32) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return st.Uid, st.Gid
}

// TestKernelEmptyDirModes: modes do not depend on the umask, and a group may write in its
// volumes and owns what is made in them.
func TestKernelEmptyDirModes(t *testing.T) {
	needsMounts(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	medium := func(medium corev1.StorageMedium, mode *int32) corev1.Volume {
		return source("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, Mode: mode}})
	}
	tests := []struct {
		name string
		v    corev1.Volume
		gid  int64 // 0: no group
		mode fs.FileMode
	}{
		{"disk", medium("", nil), 0, 0o777},
		{"memory", medium("Memory", nil), 0, 0o777 | fs.ModeSticky},
		{"disk of a group", medium("", nil), 1234, 0o777 | fs.ModeSetgid},
		{"memory of a group", medium("Memory", nil), 1234, 0o777 | fs.ModeSetgid | fs.ModeSticky},
		{"mode", medium("", new(int32(0o1700))), 0, 0o700 | fs.ModeSticky},
		{"mode of a group", medium("", new(int32(0o700))), 1234, 0o770 | fs.ModeSetgid},
	}
	for _, tt := range tests {
		m := newManager(t, volume.Config{})
		p := pod("1", tt.v)
		if tt.gid != 0 {
			withGroup(p, tt.gid)
		}
		modeAndGroup(t, setUp(t, m, p)["v"], tt.mode|fs.ModeDir, uint32(tt.gid))
		if t.Failed() {
			t.Fatal(tt.name)
		}
	}
}

// TestKernelMemorySizes: the least of what the volume, the pod and the node say.
func TestKernelMemorySizes(t *testing.T) {
	needsMounts(t)
	node := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	limited := func(memory string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		}
	}
	tests := []struct {
		name  string
		limit string // of the volume
		node  corev1.ResourceList
		edit  func(*corev1.Pod)
		grown corev1.ResourceList // what the node has later, before the pod comes
		want  int64               // in MiB
	}{
		{name: "the node", node: node, want: 64},
		{name: "the volume", limit: "8Mi", node: node, want: 8},
		{name: "more than the node has", limit: "1Gi", node: node, want: 64},
		{name: "zero is no limit", limit: "0", node: node, want: 64},
		{name: "the pod", node: node, edit: limited("16Mi"), want: 16},
		{name: "the pod, not the volume", limit: "32Mi", node: node, edit: limited("16Mi"), want: 16},
		{name: "the volume, not the pod", limit: "8Mi", node: node, edit: limited("16Mi"), want: 8},
		{name: "one container has no limit", node: node, edit: func(p *corev1.Pod) {
			limited("16Mi")(p)
			p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		}, want: 64},
		{name: "a node that has grown", node: node, grown: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("96Mi")}, want: 96},
		{name: "only the volume", limit: "8Mi", want: 8},
	}
	for _, tt := range tests {
		m := newManager(t, volume.Config{Allocatable: tt.node})
		if tt.grown != nil {
			m.SetAllocatable(tt.grown)
		}
		v := source("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}})
		if tt.limit != "" {
			v.EmptyDir.SizeLimit = new(resource.MustParse(tt.limit))
		}
		p := pod("1", v)
		if tt.edit != nil {
			tt.edit(p)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(setUp(t, m, p)["v"], &st); err != nil {
			t.Fatal(err)
		}
		if got := int64(st.Blocks) * st.Bsize >> 20; st.Type != unix.TMPFS_MAGIC || got != tt.want {
			t.Errorf("%s: the volume has %d MiB in a file system %x, want %d in a tmpfs", tt.name, got, st.Type, tt.want)
		}
	}
}

// TestKernelMemoryIsNotSwapped where the kernel can promise it (Linux 6.4).
func TestKernelMemoryIsNotSwapped(t *testing.T) {
	needsMounts(t)
	probe := t.TempDir()
	if err := unix.Mount("tmpfs", probe, "tmpfs", 0, "noswap"); errors.Is(err, unix.EINVAL) {
		t.Skip("the kernel does not know the option noswap")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(probe, 0); err != nil {
		t.Fatal(err)
	}
	m := newManager(t, volume.Config{})
	dir := setUp(t, m, pod("1", source("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}})))["v"]
	if got := mountOptions(t, dir); !strings.Contains(got, "noswap") {
		t.Errorf("it is mounted with %s, want noswap", got)
	}
}

// mountOptions returns the line of the table of mounts for a path, the last one if several
// are mounted on each other.
func mountOptions(tb testing.TB, path string) string {
	tb.Helper()
	raw, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		tb.Fatal(err)
	}
	last := ""
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, " "+path+" ") {
			last = line
		}
	}
	if last == "" {
		tb.Fatalf("nothing is mounted at %s", path)
	}
	return last
}

// TestKernelHugePages: a file system of the pages that the pod requests. The kernel mounts
// one without having pages.
func TestKernelHugePages(t *testing.T) {
	needsMounts(t)
	if entries, err := os.ReadDir("/sys/kernel/mm/hugepages"); err != nil || len(entries) == 0 {
		t.Skipf("the kernel has no huge pages: %v", err)
	}
	request := func(names ...corev1.ResourceName) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{}
			for _, n := range names {
				p.Spec.Containers[0].Resources.Limits[n] = resource.MustParse("4Mi")
			}
		}
	}
	tests := []struct {
		name   string
		medium corev1.StorageMedium
		limit  string
		edit   func(*corev1.Pod)
		want   string // among the mount options
		fails  string
	}{
		{name: "the only size", medium: "HugePages", edit: request("hugepages-2Mi"), want: "pagesize=2M"},
		{name: "a named size", medium: "HugePages-2Mi", edit: request("hugepages-2Mi", "hugepages-1Gi"), want: "pagesize=2M"},
		{name: "limited", medium: "HugePages-2Mi", limit: "8Mi", edit: request("hugepages-2Mi"), want: "size=8388608"},
		{name: "of the pod", medium: "HugePages", edit: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}}
		}, want: "pagesize=2M"},
		{name: "nothing requested", medium: "HugePages", fails: "there is no resource request for huge pages"},
		{name: "another size requested", medium: "HugePages-1Gi", edit: request("hugepages-2Mi"), fails: "huge pages of that size"},
		{name: "several sizes", medium: "HugePages", edit: request("hugepages-2Mi", "hugepages-1Gi"), fails: "multiple huge page sizes"},
		{name: "no size", medium: "HugePages-big", edit: request("hugepages-2Mi"), fails: "medium HugePages-big: "},
		{name: "no medium", medium: "Tape", fails: `unknown storage medium "Tape"`},
	}
	for _, tt := range tests {
		m := newManager(t, volume.Config{})
		v := source("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: tt.medium}})
		if tt.limit != "" {
			v.EmptyDir.SizeLimit = new(resource.MustParse(tt.limit))
		}
		p := pod("1", v)
		if tt.edit != nil {
			tt.edit(p)
		}
		if tt.fails != "" {
			contains(t, attempt(t, m, p), tt.fails)
			continue
		}
		for range 2 {
			setUp(t, m, p)
		}
		dir := setUp(t, m, p)["v"]
		if got := mountOptions(t, dir); !strings.Contains(got, " hugetlbfs ") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: it is mounted as %s, want hugetlbfs with %s", tt.name, got, tt.want)
		}
		modeAndGroup(t, dir, fs.ModeDir|0o777, 0)
		if err := m.TearDown(t.Context(), "1"); err != nil {
			t.Error(err)
		}
	}
}

// TestKernelEmptyDirLivesAsLongAsThePod: what is in it survives the death of the process,
// and so does the mode that a container gave it; it goes with the pod.
func TestKernelEmptyDirLivesAsLongAsThePod(t *testing.T) {
	needsMounts(t)
	dir := root(t)
	p := pod("1", emptyDir("disk"), source("ram", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}))
	var paths map[string]string
	for round := range 3 { // each with a process of its own
		paths = setUp(t, newManager(t, volume.Config{Root: dir}), p)
		for name, path := range paths {
			if round == 0 {
				write(t, path+"/data", "x")
				if err := os.Chmod(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if read(t, path+"/data") != "x" {
				t.Errorf("round %d: %s lost its data", round, name)
			}
			modeAndGroup(t, path, fs.ModeDir|0o700, 0)
		}
	}
	if got := mountsBelow(t, dir); len(got) != 1 {
		t.Errorf("mounts are %v, want one", got)
	}
	if err := newManager(t, volume.Config{Root: dir}).TearDown(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	for name, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

// TestKernelReboot: what was in memory is gone and comes again, what was on disk is there.
func TestKernelReboot(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setSecret("key", map[string]string{"k": "1"})
	dir := root(t)
	p := pod("1", emptyDir("disk"), secret("key", "key"))
	paths := setUp(t, newManager(t, volume.Config{Root: dir, Objects: &o}), p)
	write(t, paths["disk"]+"/data", "x")
	if err := (volume.Mounter{}).Unmount(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := list(t, paths["key"]); len(got) != 0 {
		t.Fatalf("the secret left %v on disk", got)
	}
	o.fail(errors.New("the API server does not answer"))
	m := newManager(t, volume.Config{Root: dir, Objects: &o})
	contains(t, attempt(t, m, p), "the API server does not answer")
	o.fail(nil)
	m.Changed(volume.Object{Kind: volume.Secrets, Namespace: "shop", Name: "key"})
	paths = setUp(t, m, p)
	if read(t, paths["disk"]+"/data") != "x" || read(t, paths["key"]+"/k") != "1" {
		t.Error("the volumes are not what they were")
	}
	if mounts := mountsBelow(t, dir); len(mounts) != 1 || mounts[0] != filepath.Clean(paths["key"]) {
		t.Errorf("mounts are %v, want the secret", mounts)
	}
}
