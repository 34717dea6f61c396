package csi

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// TestPersistentVolume goes through the life of a volume, with each place and record
// where the kubelet has them.
func TestPersistentVolume(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	m := w.setUp(podOf("1", "db"))
	kubelet := filepath.Join(w.root, "kubelet")
	target := filepath.Join(kubelet, "pods/1/volumes/kubernetes.io~csi/pv-db/mount")
	// The hash is that of the handle, see sha256sum(1).
	staging := filepath.Join(kubelet, "plugins/kubernetes.io/csi", csitest.DefaultName, sum("handle-db"), "globalmount")
	if m.Path != target || m.Block || m.ReadOnly || !m.Relabel || !m.RefreshAt.IsZero() {
		t.Errorf("mounted is %+v, want %s", m, target)
	}
	if diff := cmp.Diff([]string{staging, target}, w.table.Below(kubelet)); diff != "" && !strings.Contains(diff, target) {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	wantRecords(t, map[string]map[string]string{
		filepath.Dir(target): {
			"specVolID": "pv-db", "volumeHandle": "handle-db", "driverName": csitest.DefaultName, "nodeName": "node-a",
			"attachmentID": "csi-" + sum("handle-db"+csitest.DefaultName+"node-a"), "volumeLifecycleMode": "Persistent",
			"nodekitPodVolume": "data",
		},
		filepath.Dir(staging): {"volumeHandle": "handle-db", "driverName": csitest.DefaultName},
	})
	if again := w.setUp(podOf("1", "db")); again != m {
		t.Errorf("set up again: %+v, want %+v", again, m)
	}
	calls := w.driver.Calls()
	if diff := cmp.Diff([]string{"NodeStageVolume", "NodePublishVolume"}, w.driver.Ops()); diff != "" {
		t.Fatalf("calls (-want +got):\n%s", diff)
	}
	for _, c := range calls {
		mount := c.Capability.GetMount()
		if c.Volume != "handle-db" || c.Staging != staging || c.Context["size"] != "large" || len(c.Context) != 1 ||
			mount.GetFsType() != "ext4" || c.Capability.GetAccessMode().GetMode() != csiapi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER {
			t.Errorf("the driver was told %+v", c)
		}
	}
	if calls[1].Target != target || calls[1].ReadOnly {
		t.Errorf("the driver was told to publish %+v", calls[1])
	}
	w.tearDown("1")
	w.nothingLeft()
	w.tearDown("1") // a second time it is no error
	want := []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}
	if diff := cmp.Diff(want, w.driver.Ops()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// sum is a hash as a part of a path.
func sum(s string) string { return strings.TrimPrefix(inlineHandle("", s), "csi-") }

func wantRecords(t *testing.T, want map[string]map[string]string) {
	t.Helper()
	for dir, record := range want {
		raw, err := os.ReadFile(filepath.Join(dir, "vol_data.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record, got); diff != "" {
			t.Errorf("record in %s (-want +got):\n%s", dir, diff)
		}
	}
}

// TestDriverThatStagesNothing publishes at once.
func TestDriverThatStagesNothing(t *testing.T) {
	w := newWorld(t)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	if c := w.driver.Calls(); len(c) != 1 || c[0].Op != "NodePublishVolume" || c[0].Staging != "" {
		t.Errorf("calls are %+v, want one to publish without staging", c)
	}
	w.tearDown("1")
	w.nothingLeft()
	if diff := cmp.Diff([]string{"NodePublishVolume", "NodeUnpublishVolume"}, w.driver.Ops()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestSharedVolume is staged once, for the first pod, and unstaged after the last one.
func TestSharedVolume(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("2", "db"))
	w.tearDown("1")
	w.setUp(podOf("3", "db"))
	w.tearDown("2")
	want := []string{"NodeStageVolume", "NodePublishVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodePublishVolume", "NodeUnpublishVolume"}
	if diff := cmp.Diff(want, w.driver.Ops()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if n := w.p.InUse(); len(n) != 0 {
		t.Errorf("in use for the control plane are %v, of a driver that attaches nothing", n)
	}
	w.tearDown("3")
	w.nothingLeft()
	if ops := w.driver.Ops(); ops[len(ops)-1] != "NodeUnstageVolume" || len(ops) != 8 {
		t.Errorf("calls are %v, want the last one to unstage", ops)
	}
}

// TestTwoVolumesOfOneHandle are one volume of the driver, published twice.
func TestTwoVolumesOfOneHandle(t *testing.T) {
	w := newWorld(t, stages)
	same := func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "handle-same" }
	w.claim("a", same)
	w.claim("b", same)
	pod := podOf("1", "a")
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "b"},
	}})
	first := w.setUp(pod)
	second, err := w.p.SetUp(t.Context(), pod, &pod.Spec.Volumes[1])
	if err != nil {
		t.Fatal(err)
	}
	if first.Path == second.Path || len(w.driver.Published()) != 2 {
		t.Errorf("published are %v", w.driver.Published())
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestInlineVolume lives with its pod: nothing is staged or attached, and its handle is
// the kubelet's.
func TestInlineVolume(t *testing.T) {
	w := newWorld(t, stages)
	w.server.drivers.change(csitest.DefaultName, func(d *storagev1.CSIDriver) {
		d.Spec.PodInfoOnMount, d.Spec.AttachRequired = new(true), new(true)
	})
	pod := inline("4f5c")
	pod.Spec.Volumes[0].CSI.NodePublishSecretRef = &corev1.LocalObjectReference{Name: "key"}
	w.server.secrets.set(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"password": []byte("x")}})
	m := w.setUp(pod)
	if want := filepath.Join(w.root, "kubelet/pods/4f5c/volumes/kubernetes.io~csi/data/mount"); m.Path != want {
		t.Errorf("path is %s, want %s", m.Path, want)
	}
	calls := w.driver.Calls()
	if len(calls) != 1 || calls[0].Volume != "csi-"+sum("4f5cdata") {
		t.Fatalf("calls are %+v", calls)
	}
	want := map[string]string{
		"size": "small", "csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.name": "pod-4f5c", "csi.storage.k8s.io/pod.namespace": "shop",
		"csi.storage.k8s.io/pod.uid": "4f5c", "csi.storage.k8s.io/serviceAccount.name": "cart",
	}
	if diff := cmp.Diff(want, calls[0].Context); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"password": "x"}, calls[0].Secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	r, err := readRecord(filepath.Dir(m.Path))
	if err != nil || r.Lifecycle != storagev1.VolumeLifecycleEphemeral || r.Spec != "data" {
		t.Errorf("record is %+v (%v)", r, err)
	}
	if in := w.p.InUse(); len(in) != 0 {
		t.Errorf("in use for the control plane are %v", in)
	}
	w.tearDown("4f5c")
	w.nothingLeft()
}

// TestInlineVolumeAsAsked tells the driver what file system the pod wants, and that it
// only reads.
func TestInlineVolumeAsAsked(t *testing.T) {
	w := newWorld(t, stages)
	w.server.drivers.change(csitest.DefaultName, func(d *storagev1.CSIDriver) { d.Spec.PodInfoOnMount = new(true) })
	pod := inline("4f5c")
	source := pod.Spec.Volumes[0].CSI
	source.FSType, source.ReadOnly = new("xfs"), new(true)
	m := w.setUp(pod)
	calls := w.driver.Calls()
	if len(calls) != 1 || calls[0].Capability.GetMount().GetFsType() != "xfs" || !calls[0].ReadOnly || !m.ReadOnly {
		t.Errorf("calls are %+v, mounted is %+v", calls, m)
	}
	w.tearDown("4f5c")
	w.nothingLeft()
}

// TestSecrets are read where the volume says, for staging and for publishing.
func TestSecrets(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "vault", Name: "stage"}
		pv.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{Namespace: "vault", Name: "publish"}
		pv.Spec.MountOptions = []string{"noatime"}
	})
	if err := w.setUpFails(podOf("1", "db")); !strings.Contains(err.Error(), "fetching NodeStageSecretRef vault/stage failed") {
		t.Errorf("without the Secret: %v", err)
	}
	w.server.secrets.set(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "stage"}, Data: map[string][]byte{"k": []byte("s")}})
	w.server.secrets.set(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "publish"}, Data: map[string][]byte{"k": []byte("p")}})
	w.setUp(podOf("1", "db"))
	calls := w.driver.Calls()
	if len(calls) != 2 || calls[0].Secrets["k"] != "s" || calls[1].Secrets["k"] != "p" {
		t.Errorf("calls are %+v", calls)
	}
	for _, c := range calls {
		if diff := cmp.Diff([]string{"noatime"}, c.Capability.GetMount().GetMountFlags()); diff != "" {
			t.Errorf("%s: mount options (-want +got):\n%s", c.Op, diff)
		}
	}
}

// TestRefusals has pods that cannot have their volume, with a reason that names what to
// do. No driver is called.
func TestRefusals(t *testing.T) {
	now := metav1.NewTime(time.Now())
	tests := []struct {
		name   string
		claim  func(c *corev1.PersistentVolumeClaim)
		volume func(pv *corev1.PersistentVolume)
		pod    func(p *corev1.Pod)
		want   string
	}{
		{name: "not bound", claim: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }, want: "error processing PVC shop/db: PVC is not bound"},
		{name: "no volume", claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }, want: "PVC has empty pvc.Spec.VolumeName"},
		{name: "being deleted", claim: func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &now }, want: "PVC is being deleted"},
		{name: "another volume", claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" }, want: "failed to fetch PV other from API server"},
		{name: "volume of nobody", volume: func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil }, want: "nil pv.Spec.ClaimRef"},
		{name: "volume of another claim", volume: func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "x" }, want: "does not point to claim.UID db-uid"},
		{name: "another kind", volume: func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}
		}, want: "persistent volume pv-db is of a kind that is not supported, only csi, hostPath and local are"},
		{name: "no claim", pod: func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "none" }, want: "failed to fetch PVC from API server"},
		{name: "claim of somebody else", pod: func(p *corev1.Pod) {
			p.Name, p.Spec.Volumes[0] = "d", corev1.Volume{Name: "b", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
		}, want: "failed to fetch PVC"},
		{name: "block that is mounted", volume: func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, want: "volume data has volumeMode Block, but is specified in volumeMounts"},
		{name: "file system as a device", pod: func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts, p.Spec.Containers[0].VolumeDevices = nil, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
		}, want: "volume data has volumeMode Filesystem, but is specified in volumeDevices"},
		{name: "driver that leads away", volume: func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "../../etc" }, want: "cannot be the name of a driver"},
		{name: "driver named as a folder of the kubelet", volume: func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "volumeDevices" }, want: "cannot be the name of a driver"},
		{name: "no handle", volume: func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "" }, want: "handle of the volume is empty"},
		{name: "no driver", volume: func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other.example" }, want: "driver name other.example not found in the list of registered CSI drivers"},
		{name: "pod that leads away", pod: func(p *corev1.Pod) { p.UID = ".." }, want: "cannot be the UID of a pod"},
	}
	w := newWorld(t, stages)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			w.claim("db", tt.volume)
			if tt.claim != nil {
				w.server.claims.change("db", tt.claim)
			}
			pod := podOf("1", "db")
			if tt.pod != nil {
				tt.pod(pod)
			}
			if err := w.setUpFails(pod); !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
	if c := w.driver.Calls(); len(c) > 0 {
		t.Errorf("the driver was called: %+v", c)
	}
}

// TestEphemeralClaim belongs to the pod that it was made for.
func TestEphemeralClaim(t *testing.T) {
	w := newWorld(t)
	w.claim("pod-1-data", nil)
	pod := podWith("1", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	if err := w.setUpFails(pod); !strings.Contains(err.Error(), "PVC shop/pod-1-data was not created for pod shop/pod-1 (pod is not owner)") {
		t.Errorf("a claim of somebody else: %v", err)
	}
	w.server.claims.change("pod-1-data", func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
	})
	w.setUp(pod)
}

// TestLifecycles asks the CSIDriver object whether a driver has such volumes.
func TestLifecycles(t *testing.T) {
	w := newWorld(t)
	w.server.drivers.change(csitest.DefaultName, func(d *storagev1.CSIDriver) { d.Spec.VolumeLifecycleModes = nil })
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	if err := w.setUpFails(inline("2")); !strings.Contains(err.Error(), `volume mode "Ephemeral" not supported by driver`) {
		t.Errorf("inline volume of a driver that has none: %v", err)
	}
	w = newWorld(t)
	if err := w.server.drivers.Delete(t.Context(), csitest.DefaultName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.setUpFails(inline("2")); !strings.Contains(err.Error(), "no CSIDriver object") {
		t.Errorf("inline volume of a driver without an object: %v", err)
	}
	w = newWorld(t)
	w.server.drivers.fail(errors.New("the server is away"))
	if err := w.setUpFails(inline("2")); !strings.Contains(err.Error(), "the server is away") {
		t.Errorf("without a server: %v", err)
	}
}

// TestServerAway uses what is known of a driver.
func TestServerAway(t *testing.T) {
	w := newWorld(t)
	w.setUp(inline("1"))
	w.server.drivers.fail(errors.New("the server is away"))
	w.setUp(inline("2"))
	w.tearDown("1")
	w.tearDown("2")
	w.nothingLeft()
}

// TestServerAwayAfterRestart has a pod use what it had, and nothing else.
func TestServerAwayAfterRestart(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	before := w.setUp(podOf("1", "db"))
	w.startProvider(Config{})
	away := errors.New("the server is away")
	w.server.claims.fail(away)
	m := w.setUp(podOf("1", "db"))
	if m.Path != before.Path || m.RefreshAt.IsZero() {
		t.Errorf("mounted is %+v, want %s, to be looked at again", m, before.Path)
	}
	if err := w.setUpFails(podOf("2", "db")); !errors.Is(err, away) {
		t.Errorf("a pod that had nothing: %v", err)
	}
	other := podOf("1", "db")
	other.Spec.Volumes[0].Name = "more"
	if err := w.setUpFails(other); !errors.Is(err, away) {
		t.Errorf("another volume of the pod: %v", err)
	}
	if err := w.table.Unmount(m.Path); err != nil {
		t.Fatal(err)
	}
	if err := w.setUpFails(podOf("1", "db")); !errors.Is(err, away) {
		t.Errorf("a volume that is not mounted any more: %v", err)
	}
	w.server.claims.fail(nil)
	w.register()
	w.setUp(podOf("1", "db"))
	if err := w.server.claims.Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.setUpFails(podOf("1", "db")); !strings.Contains(err.Error(), "not found") {
		t.Errorf("with a claim that is gone: %v", err)
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestGroupOfAVolume is told to whoever starts containers, also while the API server is away.
func TestGroupOfAVolume(t *testing.T) {
	w := newWorld(t, stages)
	gid := func(value string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) {
			pv.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": value}
		}
	}
	w.claim("db", gid("1234"))
	w.claim("odd", gid("staff"))
	w.claim("host", func(pv *corev1.PersistentVolume) {
		gid("0")(pv)
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: w.root}}
	})
	if g := w.setUp(podOf("1", "db")).Group; g == nil || *g != 1234 {
		t.Errorf("group is %v, want 1234", g)
	}
	if g := w.setUp(podOf("2", "odd")).Group; g != nil {
		t.Errorf("a word is group %d", *g)
	}
	if g := w.setUp(podOf("3", "host")).Group; g == nil || *g != 0 {
		t.Errorf("group of a place of the machine is %v, want 0", g)
	}
	w.startProvider(Config{})
	w.server.claims.fail(errors.New("the server is away"))
	if g := w.setUp(podOf("1", "db")).Group; g == nil || *g != 1234 {
		t.Errorf("group while the server is away is %v, want 1234", g)
	}
}
