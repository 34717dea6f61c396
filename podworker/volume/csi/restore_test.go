package csi

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// TestKilled: an agent that is killed and comes again keeps what pods have, and undoes
// what they have no more, without knowing the pods.
func TestKilled(t *testing.T) {
	w := newWorld(t, stages)
	w.tellPods()
	w.claim("db", nil)
	w.claim("log", nil)
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("2", "db"))
	w.setUp(podOf("3", "log"))
	w.setUp(inline("4"))
	w.restart()
	w.tearDown("1")
	w.tearDown("3")
	w.tearDown("4")
	eventually(t, "the end of log", func() bool { return slices.Contains(w.driver.Ops(), "NodeUnstageVolume") })
	staged := w.p.paths.staging(volumeID{csitest.DefaultName, "handle-db"})
	if on, _ := w.table.Mounted(staged); !on || len(w.driver.Published()) != 1 {
		t.Errorf("the volume of a pod that runs is staged: %v, published are %v", on, w.driver.Published())
	}
	w.setUp(podOf("2", "db"))
	w.tearDown("2")
	w.nothingLeft()
}

// TestKilledAnywhere kills the agent in each call to the driver, before and after the
// driver has done it.
func TestKilledAnywhere(t *testing.T) {
	for _, op := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		for _, fault := range []csitest.Fault{csitest.Fail(14, "killed before"), csitest.FailAfter(14, "killed after")} {
			w := newWorld(t, stages)
			w.claim("db", nil)
			pod := podOf("1", "db")
			w.driver.Inject(op, fault, 1)
			_, setUp := w.p.SetUp(t.Context(), pod, &pod.Spec.Volumes[0])
			tearDown := error(nil)
			if setUp == nil {
				tearDown = w.p.TearDown(t.Context(), "1")
			}
			if setUp == nil && tearDown == nil && op != "NodeUnstageVolume" {
				t.Errorf("%s does not fail", op)
			}
			if op == "NodeUnstageVolume" {
				eventually(t, "the first attempt", func() bool { return slices.Contains(w.driver.Ops(), op) })
			}
			w.restart()
			w.tearDown("1")
			w.nothingLeft()
		}
	}
}

// TestReboot: nothing is mounted any more, and what is on disk is undone or made anew.
func TestReboot(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.claim("log", nil)
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("2", "log"))
	w.table.Clear()
	w.restart()
	m := w.setUp(podOf("1", "db"))
	if on, _ := w.table.Mounted(m.Path); !on {
		t.Error("the volume of a pod that starts anew is not published")
	}
	w.tearDown("2")
	w.tearDown("1")
	w.nothingLeft()
}

// TestStagedForNobody: a volume that was staged when the agent died is unstaged when the
// driver comes.
func TestStagedForNobody(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.driver.Inject("NodePublishVolume", csitest.Fail(13, "no"), 1)
	w.setUpFails(podOf("1", "db"))
	w.restart()
	w.nothingLeft()
	if ops := w.driver.Ops(); ops[len(ops)-1] != "NodeUnstageVolume" {
		t.Errorf("calls are %v", ops)
	}
}

// TestInUseAfterRestart tells the control plane of what was attached before.
func TestInUseAfterRestart(t *testing.T) {
	w := newWorld(t, stages)
	w.tellPods()
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	w.setUp(inline("2"))
	w.restart()
	want := []corev1.UniqueVolumeName{"kubernetes.io/csi/" + csitest.DefaultName + "^handle-db"}
	if diff := cmp.Diff(want, w.p.InUse()); diff != "" {
		t.Errorf("in use (-want +got):\n%s", diff)
	}
	w.tearDown("2")
	if diff := cmp.Diff(want, w.p.InUse()); diff != "" {
		t.Errorf("in use after another pod has gone (-want +got):\n%s", diff)
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestUnreadableRecord: what is not known is left alone, and nothing is unstaged as long
// as it might be in use by it.
func TestUnreadableRecord(t *testing.T) {
	const missing = "missing"
	for name, content := range map[string]string{
		"half":       `{"driverName":"` + csitest.DefaultName,
		"empty":      "",
		"huge":       strings.Repeat(" ", maxRecord+1),
		"leads away": `{"driverName":"..","volumeHandle":"x"}`,
		missing:      "",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, stages)
			w.claim("db", nil)
			w.claim("log", nil)
			m := w.setUp(podOf("1", "db"))
			w.setUp(podOf("2", "log"))
			record := filepath.Join(filepath.Dir(m.Path), recordFile)
			before, err := os.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			write(t, record, content)
			if name == missing {
				if err := os.Remove(record); err != nil {
					t.Fatal(err)
				}
			}
			w.restart()
			w.stop() // what Run would do is done here
			w.tearDown("2")
			if err := w.p.TearDown(t.Context(), "1"); err == nil || !strings.Contains(err.Error(), "the driver that has it is not known") {
				t.Errorf("TearDown is %v", err)
			}
			if err := w.unstageUnused(); err == nil || !strings.Contains(err.Error(), "volume pv-db of pod 1 is not known") {
				t.Errorf("unstaging is %v", err)
			}
			if on, _ := w.table.Mounted(m.Path); !on || slices.Contains(w.driver.Ops(), "NodeUnstageVolume") {
				t.Errorf("the volume is mounted: %v, calls were %v", on, w.driver.Ops())
			}
			write(t, record, string(before)) // somebody mended it
			if err := w.unstageUnused(); err != nil {
				t.Errorf("unstaging with all records: %v", err)
			}
			if calls := w.driver.Calls(); calls[len(calls)-1].Op != "NodeUnstageVolume" || calls[len(calls)-1].Volume != "handle-log" {
				t.Errorf("the last call is %+v, want log unstaged", calls[len(calls)-1])
			}
			w.tearDown("1")
			if err := w.unstageUnused(); err != nil {
				t.Errorf("unstaging at the end: %v", err)
			}
			w.nothingLeft()
		})
	}
}

// TestStrayFiles: files where directories are to be are nobody's and hold up nothing.
func TestStrayFiles(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	dir := filepath.Join(w.root, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.onHost("disk", localAt(dir))
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("2", "disk"))
	if err := os.MkdirAll(w.p.paths.localDevice("pv-disk"), 0o750); err != nil { // as for a device
		t.Fatal(err)
	}
	stray := []string{
		filepath.Join(w.p.paths.pods(), ".nfs0001"),
		filepath.Join(w.p.paths.plugin(), "stray"),
		filepath.Join(w.p.paths.plugin(), csitest.DefaultName, "stray"),
		filepath.Join(w.p.paths.plugin(), blockDir),
	}
	for _, path := range stray {
		write(t, path, "x")
	}
	w.restart()
	w.tearDown("1")
	w.tearDown("2")
	w.nothingLeft()
	if _, err := os.Lstat(w.p.paths.localDevice("pv-disk")); !os.IsNotExist(err) {
		t.Errorf("the place of the device is left: %v", err)
	}
	for _, path := range stray {
		if got := readFile(t, path); got != "x" {
			t.Errorf("%s has %q", path, got)
		}
	}
}

// TestStrayFileAmongVolumes: it keeps the directory of its pod, and nothing else.
func TestStrayFileAmongVolumes(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	write(t, filepath.Join(w.p.paths.volumes("1"), "stray"), "x")
	w.restart()
	if err := w.p.TearDown(t.Context(), "1"); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("TearDown is %v", err)
	}
	w.nothingLeft()
}

// TestUnreadablePod: as long as it is not known what volumes a pod has, none is unstaged; all
// else goes on.
func TestUnreadablePod(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	volumes := filepath.Join(w.p.paths.pods(), "2", "volumes")
	if err := os.Mkdir(filepath.Dir(volumes), 0o750); err != nil {
		t.Fatal(err)
	}
	write(t, volumes, "it cannot be read as a directory")
	w.restart()
	w.stop() // what Run would do is done here
	w.tearDown("1")
	if err := w.unstageUnused(); err == nil || !strings.Contains(err.Error(), "volumes of pod 2 are not known") {
		t.Errorf("unstaging is %v", err)
	}
	if slices.Contains(w.driver.Ops(), "NodeUnstageVolume") {
		t.Errorf("calls were %v", w.driver.Ops())
	}
	if err := os.Remove(volumes); err != nil {
		t.Fatal(err)
	}
	if err := w.unstageUnused(); err != nil {
		t.Errorf("unstaging with all volumes known: %v", err)
	}
	w.nothingLeft()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKubeletBefore takes over what a kubelet wrote.
func TestKubeletBefore(t *testing.T) {
	w := newWorld(t, stages)
	w.stop()
	dir := filepath.Join(w.root, "kubelet/pods/9/volumes/kubernetes.io~csi/pvc-1")
	staging := filepath.Join(w.root, "kubelet/plugins/kubernetes.io/csi", csitest.DefaultName, sum("h"))
	for _, d := range []string{dir + "/mount", staging + "/globalmount"} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := w.table.Bind("/x", d, false); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/vol_data.json", `{"attachmentID":"csi-1","driverName":"`+csitest.DefaultName+`","nodeName":"node-a","seLinuxMountContext":"","specVolID":"pvc-1","volumeHandle":"h","volumeLifecycleMode":"Persistent"}`+"\n")
	write(t, staging+"/vol_data.json", `{"driverName":"`+csitest.DefaultName+`","volumeHandle":"h"}`+"\n")
	w.restart()
	w.tearDown("9")
	w.nothingLeft()
	if diff := cmp.Diff([]string{"NodeUnpublishVolume", "NodeUnstageVolume"}, w.driver.Ops()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestDirectoryWithoutARecord is what an agent leaves that died between two steps.
func TestDirectoryWithoutARecord(t *testing.T) {
	w := newWorld(t, stages)
	for _, uid := range []types.UID{"1", "2"} {
		if err := os.MkdirAll(filepath.Dir(w.p.paths.target(uid, "pv-x")), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(filepath.Dir(w.p.paths.target("1", "pv-x")), recordTemp), "half")
	if err := os.Mkdir(w.p.paths.target("2", "pv-x"), 0o750); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.tearDown("1")
	w.tearDown("2")
	if left := names2(t, w.p.paths.pods()); len(left) != 2 {
		t.Errorf("directories of pods are %v", left)
	}
	for _, uid := range []types.UID{"1", "2"} {
		if _, err := os.Stat(w.p.paths.volumes(uid)); !os.IsNotExist(err) {
			t.Errorf("the directory of pod %s is left: %v", uid, err)
		}
	}
	if err := w.p.TearDown(t.Context(), "../x"); err == nil {
		t.Error("a UID that leads away: no error")
	}
}

func names2(t *testing.T, dir string) []string {
	t.Helper()
	out, err := names(dir)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzParseRecord feeds what may be on disk: what is accepted leads nowhere else.
func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"specVolID":"pv","volumeHandle":"h","driverName":"disk.example","nodeName":"n","attachmentID":"csi-1","volumeLifecycleMode":"Persistent"}`))
	f.Add([]byte(`{"driverName":"../..","volumeHandle":"/etc"}`))
	f.Add([]byte(`{"driverName":"volumeDevices","volumeHandle":"h"}`))
	f.Add([]byte(`{"driverName":1}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parseRecord(raw)
		if err != nil {
			return
		}
		p := paths{root: "/root"}
		plugin := p.plugin() + "/"
		if staging := p.staging(r.id()); !strings.HasPrefix(staging, plugin) || strings.Count(strings.TrimPrefix(staging, plugin), "/") != 2 {
			t.Errorf("%+v is staged at %s", r, staging)
		}
		if r.Spec != "" && filepath.Dir(p.block(r.Spec)) != filepath.Join(p.plugin(), blockDir) {
			t.Errorf("%+v is at %s", r, p.block(r.Spec))
		}
	})
}
