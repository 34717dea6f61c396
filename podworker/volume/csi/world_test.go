package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

const (
	stages  = csiapi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	expands = csiapi.NodeServiceCapability_RPC_EXPAND_VOLUME
	groups  = csiapi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
	shares  = csiapi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
)

// patience is how long a test waits for what has to come.
const patience = 2 * time.Minute

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s has not come", patience, what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // between two looks at another goroutine's work
	}
}

// fakeHost is a host whose mounts are entries in a table.
type fakeHost struct {
	table *csitest.Table

	mu    sync.Mutex // guards the fields below
	owned map[string]ownership
	// done is what was mounted for local volumes.
	done []string
}

func (h *fakeHost) mounted(path string) (bool, error) { return h.table.Mounted(path) }

func (h *fakeHost) own(_ context.Context, dir string, o ownership) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned[dir] = o
	return nil
}

func (h *fakeHost) unmount(_ context.Context, path string) error {
	for _, p := range h.table.Below(path) {
		if err := h.table.Unmount(p); err != nil {
			return err
		}
	}
	return nil
}

func (h *fakeHost) bind(source, target string, options []string) error {
	return h.mount(source, target, options)
}

func (h *fakeHost) format(device, target, fsType string, options []string) error {
	return h.mount(device, target, append([]string{fsType}, options...))
}

func (h *fakeHost) mount(source, target string, options []string) error {
	h.mu.Lock()
	h.done = append(h.done, fmt.Sprint("mount ", filepath.Base(source), " at ", filepath.Base(target), " ", options))
	h.mu.Unlock()
	return h.table.Bind(source, target, slices.Contains(options, "ro"))
}

// world is a node: a driver, a provider, the API server and the disk.
type world struct {
	t      *testing.T
	root   string
	table  *csitest.Table
	host   *fakeHost
	server *server
	driver *csitest.Driver
	p      *Provider
	stop   func()
}

// newWorld starts a driver and a provider. The objects of a Node and of the driver,
// which attaches nothing, are there.
func newWorld(t *testing.T, capabilities ...csiapi.NodeServiceCapability_RPC_Type) *world {
	t.Helper()
	w := &world{t: t, root: shortDir(t), table: &csitest.Table{}, server: newServer()}
	w.host = &fakeHost{table: w.table, owned: map[string]ownership{}}
	w.startDriver(csitest.Config{Capabilities: capabilities})
	w.startProvider(Config{})
	w.register()
	return w
}

func newServer() *server {
	s := &server{}
	s.nodes.set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-uid"}})
	s.drivers.set(&storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: csitest.DefaultName},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired:       new(bool),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
		},
	})
	return s
}

// shortDir is a directory for sockets, whose paths have at most 107 bytes: those of
// t.TempDir may be longer.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (w *world) startDriver(cfg csitest.Config) {
	w.t.Helper()
	cfg.Dir = filepath.Join(w.root, "d")
	if cfg.Mounter == nil && w.table != nil {
		cfg.Mounter = w.table
	}
	d, err := csitest.Start(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(d.Stop)
	w.driver = d
}

// startProvider ends the provider, if there is one, as kill -9 does, and starts another
// one, without any driver.
func (w *world) startProvider(cfg Config) {
	w.t.Helper()
	if w.stop != nil {
		w.stop()
	}
	cfg.Node, cfg.Root, cfg.API = "node-a", filepath.Join(w.root, "kubelet"), w.server.api()
	var h host = w.host
	if w.host == nil {
		h = localHost{}
	}
	p, err := newWith(cfg, h)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	w.p, w.stop = p, func() { cancel(); running.Wait() }
	w.t.Cleanup(w.stop)
}

func (w *world) register() {
	w.t.Helper()
	if err := w.p.Register(w.t.Context(), w.driver.Name(), w.driver.Endpoint(), w.driver.Versions()); err != nil {
		w.t.Fatal(err)
	}
}

// tellPods has the driver told about pods, from its first call on.
func (w *world) tellPods() {
	w.server.drivers.change(csitest.DefaultName, func(d *storagev1.CSIDriver) { d.Spec.PodInfoOnMount = new(true) })
}

// restart is the death of the agent, by kill -9.
func (w *world) restart() {
	w.t.Helper()
	w.startProvider(Config{})
	w.register()
}

// claim makes a claim and its volume, bound to each other.
func (w *world) claim(name string, change func(pv *corev1.PersistentVolume)) {
	w.t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name + "-uid")},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size.DeepCopy()},
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    size,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "shop", Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: csitest.DefaultName, VolumeHandle: "handle-" + name, FSType: "ext4",
				VolumeAttributes: map[string]string{"size": "large"},
			}},
		},
	}
	if change != nil {
		change(pv)
	}
	w.server.claims.set(claim)
	w.server.volumes.set(pv)
}

// podOf is a pod that mounts one volume, named data, of a claim.
func podOf(uid types.UID, claim string) *corev1.Pod {
	return podWith(uid, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

func podWith(uid types.UID, source corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-" + string(uid), UID: uid},
		Spec: corev1.PodSpec{
			ServiceAccountName: "cart",
			Volumes:            []corev1.Volume{{Name: "data", VolumeSource: source}},
			Containers:         []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		},
	}
}

func inline(uid types.UID) *corev1.Pod {
	return podWith(uid, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: csitest.DefaultName, VolumeAttributes: map[string]string{"size": "small"}}})
}

// setUp sets up the volume of a pod, which has to succeed.
func (w *world) setUp(pod *corev1.Pod) volume.Mounted {
	w.t.Helper()
	m, err := w.p.SetUp(w.t.Context(), pod, &pod.Spec.Volumes[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// setUpFails returns what setting up the volume of a pod fails with.
func (w *world) setUpFails(pod *corev1.Pod) error {
	w.t.Helper()
	_, err := w.p.SetUp(w.t.Context(), pod, &pod.Spec.Volumes[0])
	if err == nil {
		w.t.Fatal("SetUp succeeds")
	}
	return err
}

func (w *world) tearDown(uid types.UID) {
	w.t.Helper()
	if err := w.p.TearDown(w.t.Context(), uid); err != nil {
		w.t.Fatal(err)
	}
}

// idle waits until the driver has noticed that nobody waits for it any more.
func (w *world) idle() {
	w.t.Helper()
	eventually(w.t, "the end of calls", func() bool { return len(w.driver.Busy()) == 0 })
}

// unstageUnused does once what Run does again and again.
func (w *world) unstageUnused() error {
	w.t.Helper()
	ids, err := w.p.unused()
	for _, id := range ids {
		err = errors.Join(err, w.p.unstage(w.t.Context(), id))
	}
	return err
}

// nothingLeft waits until all is unstaged, and nothing is mounted and no record is left.
func (w *world) nothingLeft() {
	w.t.Helper()
	eventually(w.t, "the end of all volumes", func() bool { return len(w.p.volumes.unused()) == 0 && len(w.p.InUse()) == 0 })
	if w.table != nil {
		if left := w.table.Below(w.root); len(left) > 0 {
			w.t.Errorf("mounted are %v", left)
		}
	}
	for _, path := range w.tree() {
		if strings.Contains(path, recordFile) || strings.Contains(path, "handle-") {
			w.t.Errorf("%s is left", path)
		}
	}
	if wrong := w.driver.Misuse(); len(wrong) > 0 {
		w.t.Errorf("the driver was misused: %v", wrong)
	}
}

// tree lists what is below the root of the provider.
func (w *world) tree() []string {
	w.t.Helper()
	root := filepath.Join(w.root, "kubelet")
	var out []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != root {
			out = append(out, strings.TrimPrefix(path, root+"/"))
		}
		return ignoreMissing(err)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}
