//go:build linux

package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestKernelSubPathOfSwappedContent: a container that starts gets the newest content of a
// file mounted by subPath, also from the next process; what has not changed stays mounted;
// after the pod nothing is left.
func TestKernelSubPathOfSwappedContent(t *testing.T) {
	needsMounts(t)
	var o objects
	dir := root(t)
	p := pod("1", configMap("conf", "conf"))
	target := filepath.Join(dir, "pods/1/volume-subpaths/conf/app/0")
	start := func(m *volume.Manager) string {
		t.Helper()
		if err := (volume.Mounter{}).Bind(t.Context(), setUp(t, m, p)["conf"], "app.ini", target, 0); err != nil {
			t.Fatal(err)
		}
		return read(t, target)
	}
	o.setConfigMap("conf", map[string]string{"app.ini": "1"})
	m := newManager(t, volume.Config{Root: dir, Objects: &o})
	if got := start(m); got != "1" {
		t.Errorf("the container reads %q", got)
	}
	first := mountOptions(t, target)
	if start(m); mountOptions(t, target) != first {
		t.Error("it was mounted again though nothing has changed")
	}
	for _, next := range []string{"2", "3"} {
		o.setConfigMap("conf", map[string]string{"app.ini": next})
		if next == "3" {
			m = newManager(t, volume.Config{Root: dir, Objects: &o})
		}
		m.Changed(conf())
		if got := start(m); got != next {
			t.Errorf("the container reads %q, want %q", got, next)
		}
	}
	if err := m.TearDown(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if left := mountsBelow(t, dir); len(left) > 0 {
		t.Errorf("%v stay mounted", left)
	}
	if diff := cmp.Diff([]string{".", "plugins", "plugins/kubernetes.io~empty-dir"}, tree(t, dir+"/pods/1")); diff != "" {
		t.Errorf("left on disk (-want +got)\n%s", diff)
	}
}

// TestKernelUnfinished: SetUp and TearDown go on after the death of a process in any state
// that it can leave.
func TestKernelUnfinished(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setConfigMap("conf", map[string]string{"a": "1"})
	o.setSecret("key", map[string]string{"b": "2"})
	p := pod("1", emptyDir("cache"), configMap("conf", "conf"), secret("key", "key"))
	unmount := func(t *testing.T, path string) {
		t.Helper()
		if err := unix.Unmount(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	const volumes, marks = "volumes/kubernetes.io~", "plugins/kubernetes.io~empty-dir/"
	tests := []struct {
		name string
		undo func(t *testing.T, dir string)
	}{
		{"nothing was done", func(t *testing.T, dir string) {
			t.Helper()
			unmount(t, dir+"/"+volumes+"secret/key")
			must(t, os.RemoveAll(dir))
		}},
		{"only directories", func(t *testing.T, dir string) {
			t.Helper()
			unmount(t, dir+"/"+volumes+"secret/key")
			must(t, os.RemoveAll(dir+"/plugins"))
			must(t, os.RemoveAll(dir+"/"+volumes+"configmap/conf"))
			must(t, os.Mkdir(dir+"/"+volumes+"configmap/conf", 0o700))
			must(t, os.Chmod(dir+"/"+volumes+"empty-dir/cache", 0o700))
		}},
		{"marks without directories", func(t *testing.T, dir string) {
			t.Helper()
			unmount(t, dir+"/"+volumes+"secret/key")
			must(t, os.RemoveAll(dir+"/volumes"))
		}},
		{"mounted, without a mark", func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.RemoveAll(dir+"/"+marks+"wrapped_key"))
		}},
		{"mounted, without files", func(t *testing.T, dir string) {
			t.Helper()
			unmount(t, dir+"/"+volumes+"secret/key")
			must(t, unix.Mount("tmpfs", dir+"/"+volumes+"secret/key", "tmpfs", 0, ""))
		}},
		{"half torn down", func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.RemoveAll(dir+"/"+marks+"wrapped_conf"))
			must(t, os.Remove(dir+"/"+volumes+"configmap/conf/..data"))
		}},
		{"a sub-path is bound", func(t *testing.T, dir string) {
			t.Helper()
			must(t, volume.Mounter{}.Bind(t.Context(), dir+"/"+volumes+"secret/key", "b", dir+"/volume-subpaths/key/app/0", 0))
		}},
		{"a place for a sub-path", func(t *testing.T, dir string) {
			t.Helper()
			write(t, dir+"/volume-subpaths/key/app/0", "")
		}},
		{"mounted twice", func(t *testing.T, dir string) {
			t.Helper()
			must(t, unix.Mount("tmpfs", dir+"/"+volumes+"secret/key", "tmpfs", 0, ""))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := root(t)
			manager := func() *volume.Manager { return newManager(t, volume.Config{Root: dir, Objects: &o}) }
			setUp(t, manager(), p)
			tt.undo(t, dir+"/pods/1")
			paths := setUp(t, manager(), p)
			if read(t, paths["conf"]+"/a") != "1" || read(t, paths["key"]+"/b") != "2" || list(t, paths["cache"]) == nil {
				t.Error("the volumes are not what they are to be")
			}
			modeAndGroup(t, paths["cache"], os.ModeDir|0o777, 0)
			modeAndGroup(t, paths["conf"], os.ModeDir|0o777, 0)
			tt.undo(t, dir+"/pods/1")
			m := manager()
			must(t, m.TearDown(t.Context(), "1"))
			if left := mountsBelow(t, dir); len(left) > 0 || !m.Unmounted("1") {
				t.Errorf("%v stay mounted", left)
			}
			must(t, m.TearDown(t.Context(), "1"))
		})
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// TestKernelClean removes what is left of pods that are gone, and nothing else.
func TestKernelClean(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setSecret("key", map[string]string{"b": "2"})
	dir := root(t)
	before := newManager(t, volume.Config{Root: dir, Objects: &o})
	for _, uid := range []string{"gone", "kept", "running", "stranger", "other-plugin"} {
		setUp(t, before, pod(uid, emptyDir("cache"), secret("key", "key")))
		write(t, dir+"/pods/"+uid+"/containers/app/12345678", "message")
		write(t, dir+"/pods/"+uid+"/etc-hosts", "hosts")
		write(t, dir+"/pods/"+uid+"/volumes/kubernetes.io~empty-dir/cache/data", "data")
	}
	// A file system that nobody knows, and a volume of a plugin that nobody has.
	foreign := dir + "/pods/stranger/volumes/kubernetes.io~nfs/share"
	must(t, os.MkdirAll(foreign, 0o750))
	must(t, unix.Mount("tmpfs", foreign, "tmpfs", 0, ""))
	write(t, foreign+"/data", "never lost")
	write(t, dir+"/pods/other-plugin/volumes/example.com~disk/d/data", "never lost")
	must(t, os.MkdirAll(dir+"/pods/other-plugin/volumes/example.com~disk/empty", 0o750))
	write(t, dir+"/pods/file", "no pod")

	m := newManager(t, volume.Config{Root: dir, Objects: &o})
	setUp(t, m, pod("running", emptyDir("cache"), secret("key", "key")))
	for range 2 {
		err := m.Clean(t.Context(), func(uid types.UID) bool { return uid == "kept" })
		contains(t, err, `orphaned pod "stranger" found, but volumes are not cleaned up`)
		contains(t, err, "failed to rmdir() volume at path "+foreign)
		contains(t, err, `orphaned pod "other-plugin" found, but volumes are not cleaned up`)
		contains(t, err, "failed to rmdir() volume at path "+dir+"/pods/other-plugin/volumes/example.com~disk/d: ")
		if strings.Contains(err.Error(), "disk/empty") {
			t.Errorf("an empty directory is left: %v", err)
		}
	}
	if diff := cmp.Diff([]string{"file", "kept", "other-plugin", "running", "stranger"}, list(t, dir+"/pods")); diff != "" {
		t.Errorf("pods on disk (-want +got)\n%s", diff)
	}
	for path, want := range map[string]string{
		foreign + "/data": "never lost",
		dir + "/pods/other-plugin/volumes/example.com~disk/d/data":    "never lost",
		dir + "/pods/kept/volumes/kubernetes.io~empty-dir/cache/data": "data",
		dir + "/pods/kept/volumes/kubernetes.io~secret/key/b":         "2",
		dir + "/pods/running/volumes/kubernetes.io~secret/key/b":      "2",
		dir + "/pods/stranger/containers/app/12345678":                "message",
	} {
		if got := read(t, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	must(t, unix.Unmount(foreign, 0))
	must(t, os.RemoveAll(dir+"/pods/other-plugin/volumes/example.com~disk/d"))
	must(t, m.Clean(t.Context(), func(uid types.UID) bool { return uid == "kept" }))
	if diff := cmp.Diff([]string{"file", "kept", "running"}, list(t, dir+"/pods")); diff != "" {
		t.Errorf("pods on disk (-want +got)\n%s", diff)
	}
}

// TestKernelCleanEntersNoMount: something is mounted where nobody expects it.
func TestKernelCleanEntersNoMount(t *testing.T) {
	needsMounts(t)
	dir := root(t)
	precious := t.TempDir()
	write(t, precious+"/data", "never lost")
	at := dir + "/pods/1/containers/app/mounted"
	must(t, os.MkdirAll(at, 0o750))
	must(t, unix.Mount(precious, at, "", unix.MS_BIND, "")) // of the same file system
	m := newManager(t, volume.Config{Root: dir})
	err := m.Clean(t.Context(), func(types.UID) bool { return false })
	contains(t, err, "a file system is mounted at "+at)
	if read(t, precious+"/data") != "never lost" {
		t.Error("it is lost")
	}
	must(t, unix.Unmount(at, 0))
	must(t, m.Clean(t.Context(), func(types.UID) bool { return false }))
	must(t, newManager(t, volume.Config{Root: dir + "/none"}).Clean(t.Context(), func(types.UID) bool { return false }))
}

// TestKernelTearDownEntersNoMount: what a container mounted in its volume and let out is
// unmounted, never emptied.
func TestKernelTearDownEntersNoMount(t *testing.T) {
	needsMounts(t)
	precious := t.TempDir()
	write(t, precious+"/data", "never lost")
	m := newManager(t, volume.Config{})
	cache := setUp(t, m, pod("1", emptyDir("cache")))["cache"]
	write(t, cache+"/own/deep/file", "x")
	must(t, os.Mkdir(cache+"/mounted", 0o755))
	must(t, unix.Mount(precious, cache+"/mounted", "", unix.MS_BIND, ""))
	must(t, m.TearDown(t.Context(), "1"))
	if read(t, precious+"/data") != "never lost" {
		t.Error("it is lost")
	}
}

// TestKernelUsage counts what volumes take up, without what is mounted in them.
func TestKernelUsage(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setConfigMap("conf", map[string]string{"a": strings.Repeat("x", 5000)})
	m := newManager(t, volume.Config{Objects: &o})
	paths := setUp(t, m, pod("1", emptyDir("cache"), configMap("conf", "conf"),
		source("ram", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}})))
	write(t, paths["cache"]+"/a/b", strings.Repeat("x", 1<<20))
	must(t, os.Link(paths["cache"]+"/a/b", paths["cache"]+"/same"))
	link(t, "/", paths["cache"]+"/everything")
	must(t, os.Mkdir(paths["cache"]+"/mounted", 0o755))
	must(t, unix.Mount("tmpfs", paths["cache"]+"/mounted", "tmpfs", 0, ""))
	write(t, paths["cache"]+"/mounted/data", strings.Repeat("x", 4<<20))
	// Of the same file system, so that devices tell nothing.
	elsewhere := t.TempDir()
	write(t, elsewhere+"/data", strings.Repeat("x", 4<<20))
	must(t, os.Mkdir(paths["cache"]+"/bound", 0o755))
	must(t, unix.Mount(elsewhere, paths["cache"]+"/bound", "", unix.MS_BIND, ""))
	write(t, paths["cache"]+"/file", "")
	must(t, unix.Mount(elsewhere+"/data", paths["cache"]+"/file", "", unix.MS_BIND, ""))
	write(t, paths["ram"]+"/data", strings.Repeat("x", 2<<20))
	got := map[string]volume.Usage{}
	list, err := m.Usage(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range list {
		got[u.Volume] = u
	}
	// Directories may take up blocks, too.
	between := func(name string, low, high int64) {
		t.Helper()
		if b := got[name].Bytes; b < low || b > high {
			t.Errorf("%s takes up %d bytes, want %d to %d", name, b, low, high)
		}
	}
	between("cache", 1<<20, 1<<20+64<<10)
	between("conf", 5000, 64<<10)
	between("ram", 2<<20, 2<<20+64<<10)
	if c, r, f := got["cache"], got["ram"], got["conf"]; !c.EmptyDir || c.Memory || !r.EmptyDir || !r.Memory || f.EmptyDir || f.Memory {
		t.Errorf("kinds are %+v", got)
	}
	for name, u := range got {
		if s := u.Space; s.Size < u.Bytes || s.Available > s.Size || s.InodesFree > s.Inodes {
			t.Errorf("%s is on a file system with %+v", name, s)
		}
	}
	if n := got["cache"].Inodes; n != 4 { // itself, a, a/b, everything
		t.Errorf("cache has %d inodes, want 4", n)
	}
	if list, err := m.Usage(t.Context(), "none"); err != nil || len(list) > 0 {
		t.Errorf("a pod without volumes uses %v (%v)", list, err)
	}
}
