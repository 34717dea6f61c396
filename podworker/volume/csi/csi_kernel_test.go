package csi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// newKernelWorld is a node whose mounts are real.
func newKernelWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: shortDir(t), server: newServer()}
	t.Cleanup(w.unmountAll) // also of a test that fails
	w.startDriver(csitest.Config{Capabilities: []csiapi.NodeServiceCapability_RPC_Type{stages}})
	w.startProvider(Config{})
	w.register()
	w.tellPods()
	return w
}

// mounts lists what is mounted below the root, the last one first.
func (w *world) mounts() []string {
	w.t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], w.root) {
			out = append([]string{f[4]}, out...)
		}
	}
	return out
}

// unmountAll is what a reboot does.
func (w *world) unmountAll() {
	for _, m := range w.mounts() {
		if err := unix.Unmount(m, unix.UMOUNT_NOFOLLOW); err != nil {
			w.t.Errorf("unmount %s: %v", m, err)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestKernelVolume has pods write into a shared volume, over the death of the agent and
// a reboot. In the end nothing is mounted, and the data is there.
func TestKernelVolume(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := newKernelWorld(t)
	w.claim("db", nil)
	first := w.setUp(podOf("1", "db"))
	second := w.setUp(podOf("2", "db"))
	write(t, filepath.Join(first.Path, "f"), "x")
	if got := readFile(t, filepath.Join(second.Path, "f")); got != "x" {
		t.Errorf("the other pod reads %q", got)
	}
	w.restart()
	if len(w.mounts()) != 3 {
		t.Errorf("mounted are %v, want staging and two pods", w.mounts())
	}
	w.tearDown("1")
	third := w.setUp(podOf("3", "db"))
	if got := readFile(t, filepath.Join(third.Path, "f")); got != "x" {
		t.Errorf("the third pod reads %q", got)
	}
	w.stop()
	w.unmountAll()
	w.restart()
	if again := w.setUp(podOf("2", "db")); readFile(t, filepath.Join(again.Path, "f")) != "x" {
		t.Error("after a reboot the data is gone")
	}
	w.tearDown("2")
	w.tearDown("3")
	w.nothingLeft()
	if left := w.mounts(); len(left) > 0 {
		t.Errorf("mounted are %v", left)
	}
	if got := readFile(t, filepath.Join(w.driver.Volume("handle-db"), "f")); got != "x" {
		t.Errorf("the data is %q", got)
	}
	want := []string{
		"plugins", "plugins/kubernetes.io", "plugins/kubernetes.io/csi", "plugins/kubernetes.io/csi/" + csitest.DefaultName,
		"pods", "pods/1", "pods/1/volumes", "pods/2", "pods/2/volumes", "pods/3", "pods/3/volumes",
	}
	if diff := cmp.Diff(want, w.tree()); diff != "" {
		t.Errorf("left on disk (-want +got):\n%s", diff)
	}
}

// TestKernelReadOnly cannot be written to.
func TestKernelReadOnly(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := newKernelWorld(t)
	w.claim("db", nil)
	pod := podOf("1", "db")
	pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	m := w.setUp(pod)
	if err := os.WriteFile(filepath.Join(m.Path, "f"), nil, 0o600); !errors.Is(err, unix.EROFS) || !m.ReadOnly {
		t.Errorf("writing: %v; %+v", err, m)
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestKernelGroup gives the files of a volume to the group of the pod.
func TestKernelGroup(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := newKernelWorld(t)
	w.claim("db", nil)
	data := w.driver.Volume("handle-db")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "f"), "x")
	pod := podOf("1", "db")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4711))}
	m := w.setUp(pod)
	var dir, file unix.Stat_t
	if err := errors.Join(unix.Stat(m.Path, &dir), unix.Stat(filepath.Join(m.Path, "f"), &file)); err != nil {
		t.Fatal(err)
	}
	if dir.Gid != 4711 || file.Gid != 4711 || dir.Mode&unix.S_ISGID == 0 || file.Mode&0o060 != 0o060 {
		t.Errorf("directory is of %d with mode %o, file of %d with %o", dir.Gid, dir.Mode, file.Gid, file.Mode)
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestKernelMountedStays: what a driver does not undo is removed by nobody, neither the
// mount nor what is in it, whatever fails and however often it is tried.
func TestKernelMountedStays(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := newKernelWorld(t)
	w.claim("db", nil)
	m := w.setUp(podOf("1", "db"))
	write(t, filepath.Join(m.Path, "f"), "x")
	w.driver.Inject("NodeUnpublishVolume", csitest.Lie, 0)
	for range 2 {
		if err := w.p.TearDown(t.Context(), "1"); err == nil {
			t.Error("TearDown says that nothing is left")
		}
		w.restart()
	}
	if got := readFile(t, filepath.Join(m.Path, "f")); got != "x" {
		t.Errorf("the data is %q", got)
	}
	w.driver.Inject("NodeUnpublishVolume", nil, 0)
	w.tearDown("1")
	w.nothingLeft()
}

// TestKernelLinkedRoot finds mounts also when the root of the agent is a link.
func TestKernelLinkedRoot(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := &world{t: t, root: shortDir(t), server: newServer()}
	t.Cleanup(w.unmountAll)
	if err := os.Mkdir(filepath.Join(w.root, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(w.root, "kubelet")); err != nil {
		t.Fatal(err)
	}
	w.startDriver(csitest.Config{})
	w.startProvider(Config{})
	w.register()
	w.tellPods()
	m := w.setUp(inline("1"))
	if on, err := w.p.host.mounted(m.Path); !on || err != nil {
		t.Errorf("mounted: %v (%v)", on, err)
	}
	w.driver.Inject("NodeUnpublishVolume", csitest.Lie, 1)
	if err := w.p.TearDown(t.Context(), "1"); err == nil || !strings.Contains(err.Error(), "is still mounted") {
		t.Errorf("TearDown is %v", err)
	}
	w.tearDown("1")
}

// blockPod is a pod that has a claim as a device.
func blockPod(uid types.UID, claim string) *corev1.Pod {
	pod := podOf(uid, claim)
	pod.Spec.Containers[0].VolumeMounts = nil
	pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
	return pod
}

// TestKernelBlock publishes a device to two pods, over the death of the agent.
func TestKernelBlock(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := newKernelWorld(t)
	w.claim("db", func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })
	device := w.driver.Volume("handle-db") + ".dev"
	if err := os.MkdirAll(filepath.Dir(device), 0o755); err != nil {
		t.Fatal(err)
	}
	const number = 7<<8 | 200 // of a loop device, which is not opened
	if err := unix.Mknod(device, unix.S_IFBLK|0o600, number); err != nil {
		t.Fatal(err)
	}
	m := w.setUp(blockPod("1", "db"))
	w.setUp(blockPod("2", "db"))
	plugin := filepath.Join(w.root, "kubelet/plugins/kubernetes.io/csi/volumeDevices")
	if want := filepath.Join(plugin, "publish/pv-db/1"); m.Path != want || !m.Block || m.Relabel {
		t.Errorf("mounted is %+v, want a device at %s", m, want)
	}
	var st unix.Stat_t
	if err := unix.Stat(m.Path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK || st.Rdev != number {
		t.Errorf("mode is %o, device %x (%v)", st.Mode, st.Rdev, err)
	}
	if to, err := os.Readlink(filepath.Join(w.root, "kubelet/pods/1/volumeDevices/kubernetes.io~csi/pv-db")); err != nil || to != m.Path {
		t.Errorf("the link of the pod leads to %s (%v)", to, err)
	}
	wantRecords(t, map[string]map[string]string{filepath.Join(plugin, "pv-db/data"): {
		"specVolID": "pv-db", "volumeHandle": "handle-db", "driverName": csitest.DefaultName, "nodeName": "node-a",
		"attachmentID": attachment(volumeID{csitest.DefaultName, "handle-db"}, "node-a"),
	}})
	if c := w.driver.Calls(); len(c) != 3 || c[0].Capability.GetBlock() == nil || c[0].Staging != filepath.Join(plugin, "staging/pv-db") || c[1].Staging != c[0].Staging {
		t.Errorf("calls are %+v", c)
	}
	w.restart()
	w.tearDown("1")
	w.setUp(blockPod("2", "db"))
	w.tearDown("2")
	w.nothingLeft()
	if left := w.mounts(); len(left) > 0 {
		t.Errorf("mounted are %v", left)
	}
	for _, path := range w.tree() {
		if strings.Contains(path, "pv-db") {
			t.Errorf("%s is left", path)
		}
	}
}

// TestKernelNoDevice refuses what a driver publishes that is no device.
func TestKernelNoDevice(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := newKernelWorld(t)
	w.claim("db", func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })
	file := w.driver.Volume("handle-db") + ".dev"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, file, "not a device")
	if err := w.setUpFails(blockPod("1", "db")); !strings.Contains(err.Error(), "is no block device") {
		t.Errorf("error is %v", err)
	}
	w.driver.Inject("NodePublishVolume", csitest.Lie, 1)
	if err := w.setUpFails(blockPod("2", "db")); !strings.Contains(err.Error(), "has published volume handle-db") {
		t.Errorf("error is %v", err)
	}
	w.tearDown("1")
	w.tearDown("2")
	w.nothingLeft()
}
