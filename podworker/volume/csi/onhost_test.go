package csi

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// onHost makes a claim for a place of the machine.
func (w *world) onHost(name string, source corev1.PersistentVolumeSource, change ...func(pv *corev1.PersistentVolume)) {
	w.t.Helper()
	w.claim(name, func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = source
		for _, c := range change {
			c(pv)
		}
	})
}

func localAt(path string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
}

func hostPathAt(path string, kind corev1.HostPathType) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

// TestHostPathOfAClaim: what local-path provisioners make.
func TestHostPathOfAClaim(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.root, "data")
	w.onHost("db", hostPathAt(dir, corev1.HostPathDirectoryOrCreate))
	pod := podOf("1", "db")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(7))}
	if diff := cmp.Diff(volume.Mounted{Path: dir}, w.setUp(pod)); diff != "" {
		t.Errorf("mounted (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("the directory was not made: %v", err)
	}
	pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	if diff := cmp.Diff(volume.Mounted{Path: dir, ReadOnly: true}, w.setUp(pod)); diff != "" {
		t.Errorf("mounted (-want +got):\n%s", diff)
	}
	w.tearDown("1")
	if _, err := os.Stat(dir); err != nil || len(w.host.owned)+len(w.host.done) > 0 {
		t.Errorf("after the pod: %v; given away %v, mounted %v", err, w.host.owned, w.host.done)
	}
}

// TestLocalDevice is mounted once for all pods, and formatted if it is empty.
func TestLocalDevice(t *testing.T) {
	device := blockDevice(t)
	for _, tt := range []struct {
		name   string
		volume func(pv *corev1.PersistentVolume)
		only   bool // to be read
		want   []string
	}{
		{name: "as it is", want: []string{"ext4", ""}},
		{name: "of a type", volume: func(pv *corev1.PersistentVolume) { pv.Spec.Local.FSType = new("xfs") }, want: []string{"xfs", ""}},
		{name: "with options", volume: func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noatime"} }, want: []string{"ext4 noatime", "noatime"}},
		{name: "read only", only: true, want: []string{"ext4 ro", "ro"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.onHost("db", localAt(device), func(pv *corev1.PersistentVolume) {
				if tt.volume != nil {
					tt.volume(pv)
				}
			})
			first, second := podOf("1", "db"), podOf("2", "db")
			first.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly, second.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = tt.only, tt.only
			w.setUp(first)
			w.setUp(first) // changes nothing
			w.setUp(second)
			base := filepath.Base(device)
			want := []string{
				"mount " + base + " at pv-db [" + tt.want[0] + "]",
				"mount pv-db at pv-db [" + tt.want[1] + "]",
				"mount pv-db at pv-db [" + tt.want[1] + "]",
			}
			if diff := cmp.Diff(want, w.host.done); diff != "" {
				t.Errorf("mounted (-want +got):\n%s", diff)
			}
			w.restart()
			w.tearDown("1")
			if left := w.table.Below(w.root); len(left) != 2 {
				t.Errorf("mounted are %v, want the device and the place of the other pod", left)
			}
			w.tearDown("2")
			w.nothingLeft()
			if left := strings.Join(w.tree(), " "); strings.Contains(left, "pv-db") {
				t.Errorf("left on disk: %s", left)
			}
		})
	}
}

// TestLocalVolumeStaysWithItsGroup: it is given to the group of a pod only when no other pod
// has it mounted, whatever an agent before left behind.
func TestLocalVolumeStaysWithItsGroup(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.root, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	w.startProvider(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	w.onHost("db", localAt(dir))
	of := func(uid types.UID, group int64) *corev1.Pod {
		pod := podOf(uid, "db")
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		return pod
	}
	for _, step := range []struct {
		name string
		do   func()
		want int64
	}{
		{"the first pod", func() { w.setUp(of("1", 70001)) }, 70001},
		{"another pod", func() { w.setUp(of("2", 70002)) }, 70001},
		{"the first pod goes", func() { w.tearDown("1"); w.setUp(of("3", 70003)) }, 70001},
		{"nobody is left", func() { w.tearDown("2"); w.tearDown("3"); w.setUp(of("4", 70004)) }, 70004},
		{"after a reboot", func() { w.table.Clear(); w.setUp(of("5", 70005)) }, 70005},
	} {
		step.do()
		if got := w.host.owned[dir].group; got != step.want {
			t.Errorf("%s: the volume is of group %d, want %d", step.name, got, step.want)
		}
	}
	w.stop()
	if got := strings.Count(log.String(), "local volume stays of another group"); got != 2 || !strings.Contains(log.String(), "want=70002") {
		t.Errorf("logged:\n%s\nwant that two pods are not given it", log.String())
	}
}

// TestLocalBlockDevice is handed to containers as it is, not the link to it.
func TestLocalBlockDevice(t *testing.T) {
	device := blockDevice(t)
	w := newWorld(t)
	link := filepath.Join(w.root, "by-id")
	if err := os.Symlink(device, link); err != nil {
		t.Fatal(err)
	}
	w.onHost("db", localAt(link), func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })
	pod := podOf("1", "db")
	pod.Spec.Containers[0].VolumeMounts, pod.Spec.Containers[0].VolumeDevices = nil, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
	if diff := cmp.Diff(volume.Mounted{Path: device, Block: true}, w.setUp(pod)); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
	w.tearDown("1")
}

// TestNodeAffinityOfAVolume: a pod may name its node, past the scheduler.
func TestNodeAffinityOfAVolume(t *testing.T) {
	on := func(node string) func(pv *corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}},
			}}}
		}
	}
	w := newWorld(t)
	w.server.nodes.change("node-a", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: "node-a"} })
	here, there := filepath.Join(w.root, "here"), filepath.Join(w.root, "there")
	w.onHost("here", hostPathAt(here, corev1.HostPathDirectoryOrCreate), on("node-a"))
	w.onHost("there", hostPathAt(there, corev1.HostPathDirectoryOrCreate), on("node-b"))
	w.setUp(podOf("1", "here"))
	err := w.setUpFails(podOf("1", "there"))
	if want := "node affinity check of PV pv-there failed: no matching NodeSelectorTerms"; !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %q, want %q", err, want)
	}
	if _, err := os.Stat(there); !os.IsNotExist(err) {
		t.Errorf("the directory of another node was made: %v", err)
	}
	disk := filepath.Join(w.root, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	w.onHost("disk", localAt(disk), on("node-a"))
	w.setUp(podOf("1", "disk"))
	w.server.nodes.change("node-a", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: "renamed"} })
	w.restart()
	w.setUp(podOf("1", "disk")) // a pod keeps what it has
	w.setUpFails(podOf("2", "disk"))
}

// TestPlacesThatAreRefused, and why.
func TestPlacesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	for _, tt := range []struct {
		name   string
		source corev1.PersistentVolumeSource
		change func(pv *corev1.PersistentVolume)
		device bool // in volumeDevices
		want   string
	}{
		{name: "nfs", source: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}, want: "persistent volume pv-db is of a kind that is not supported, only csi, hostPath and local are"},
		{name: "local volume that is not there", source: localAt(filepath.Join(dir, "none")), want: "no such file or directory"},
		{name: "local file", source: localAt(filepath.Join(dir, "file")), want: "only directory and block device are supported"},
		{name: "local path that leads away", source: localAt(dir + "/../x"), want: "must not contain '..'"},
		{name: "local volume without a path", source: localAt(""), want: "the path of the volume is empty"},
		{name: "directory as a device", source: localAt(dir), change: asBlock, device: true, want: dir + " is no block device"},
		{name: "hostPath of another type", source: hostPathAt(dir, corev1.HostPathFile), want: "hostPath type check failed: " + dir + " is not a file"},
		{name: "hostPath that leads away", source: hostPathAt(dir+"/../x", corev1.HostPathDirectoryOrCreate), want: "must not contain '..'"},
		{name: "hostPath as a device", source: hostPathAt(dir, corev1.HostPathUnset), change: asBlock, device: true, want: "of kind hostPath has volumeMode Block, which is not supported"},
		{name: "hostPath with options", source: hostPathAt(dir, corev1.HostPathUnset), change: func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noexec"} }, want: "mount options are not supported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.onHost("db", tt.source, func(pv *corev1.PersistentVolume) {
				if tt.change != nil {
					tt.change(pv)
				}
			})
			pod := podOf("1", "db")
			if tt.device {
				pod.Spec.Containers[0].VolumeMounts, pod.Spec.Containers[0].VolumeDevices = nil, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
			}
			err := w.setUpFails(pod)
			if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "error processing PVC shop/db: ") {
				t.Errorf("the error is %q, want %q", err, tt.want)
			}
			w.tearDown("1")
			if left := w.table.Below(w.root); len(left) > 0 {
				t.Errorf("mounted are %v", left)
			}
		})
	}
}

func asBlock(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }

// blockDevice returns a block device of the machine, which nothing is done to.
func blockDevice(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/dev/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if info, err := os.Lstat(path); err == nil && isBlockDevice(info) {
			return path
		}
	}
	t.Skip("the machine has no block device")
	return ""
}

// TestKernelLocalDirectory binds a directory of the machine for two pods, over the death of
// the agent and a reboot. What is in it stays.
func TestKernelLocalDirectory(t *testing.T) {
	if !isolated(t) {
		return
	}
	w := newKernelWorld(t)
	dir := filepath.Join(w.root, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.onHost("db", localAt(dir), func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noexec"} })
	first, second := podOf("1", "db"), podOf("2", "db")
	second.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	first.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4711))}
	m := w.setUp(first)
	want := volume.Mounted{Path: filepath.Join(w.root, "kubelet/pods/1/volumes/kubernetes.io~local-volume/pv-db"), Relabel: true}
	if diff := cmp.Diff(want, m, cmpopts.IgnoreTypes(time.Time{})); diff != "" {
		t.Errorf("mounted (-want +got):\n%s", diff)
	}
	write(t, filepath.Join(m.Path, "f"), "x")
	if got := groupOf(t, dir); got != 4711 {
		t.Errorf("the directory is of group %d", got)
	}
	r := w.setUp(second)
	if got := readFile(t, filepath.Join(r.Path, "f")); got != "x" || !r.ReadOnly {
		t.Errorf("the other pod reads %q, read-only %v", got, r.ReadOnly)
	}
	if err := os.WriteFile(filepath.Join(r.Path, "f"), nil, 0o600); err == nil {
		t.Error("what is read-only can be written")
	}
	w.restart()
	if len(w.mounts()) != 2 {
		t.Errorf("mounted are %v, want two", w.mounts())
	}
	w.tearDown("2")
	w.stop()
	w.unmountAll()
	w.restart()
	if again := w.setUp(first); readFile(t, filepath.Join(again.Path, "f")) != "x" {
		t.Error("after a reboot the data is gone")
	}
	w.tearDown("1")
	if left := w.mounts(); len(left) > 0 {
		t.Errorf("mounted are %v", left)
	}
	if left := strings.Join(w.tree(), " "); strings.Contains(left, "pv-db") {
		t.Errorf("left on disk: %s", left)
	}
	if got := readFile(t, filepath.Join(dir, "f")); got != "x" {
		t.Errorf("the data is %q", got)
	}
}

func groupOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Gid
}
