package guest_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/podworker/podstore"
	"github.com/nodekit-go/nodekit/podworker/volume"
)

// bootVariable says which boot of the machine this is, "first" or "second". The first one
// leaves what is in diskDir for the second, as an archive.
const (
	bootVariable = "NODEKIT_BOOT"
	diskDir      = "/state"
	disk         = "disk.tar"
)

// TestReboot boots a machine twice with the same disk and no API server at the second boot. What
// the pod store has comes up; what was written before is not trusted.
func TestReboot(t *testing.T) {
	switch boot := os.Getenv(bootVariable); boot {
	case "first":
		beforeReboot(t)
		pack(t, filepath.Join(os.Getenv("NODEKIT_VM_OUT"), disk))
	case "second":
		unpack(t, "/"+disk)
		afterReboot(t)
	default:
		t.Skip("make test-guest boots a guest twice for this test")
	}
}

// pack writes diskDir to an archive.
func pack(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	if err := errors.Join(w.AddFS(os.DirFS(diskDir)), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// unpack makes diskDir of an archive.
func unpack(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(diskDir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, h.FileInfo().Mode())
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		default:
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, h.FileInfo().Mode()))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func bootID(t *testing.T) string {
	t.Helper()
	machine, err := capacity.Read(capacity.Config{StorageDir: "/"})
	if err != nil || machine.Info.BootID == "" {
		t.Fatalf("boot ID %q: %v", machine.Info.BootID, err)
	}
	return machine.Info.BootID
}

// configured is a pod with a ConfigMap.
func configured() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "web", VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}},
			}}},
		},
	}
	return pod
}

// configMaps has one ConfigMap with one entry, or does not answer.
type configMaps struct{ text string }

var errAway = errors.New("the API server is away")

func (c configMaps) ConfigMap(context.Context, *corev1.Pod, string) (*corev1.ConfigMap, error) {
	if c.text == "" {
		return nil, errAway
	}
	return &corev1.ConfigMap{Data: map[string]string{"text": c.text}}, nil
}

func (configMaps) Secret(_ context.Context, _ *corev1.Pod, name string) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

// setUp sets the pod's volumes up and returns what it reads in its ConfigMap.
func setUp(t *testing.T, objects configMaps) (string, error) {
	t.Helper()
	m, err := volume.New(volume.Config{Root: diskDir + "/kubelet", Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	wait := time.Minute
	if objects.text == "" {
		wait = 3 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	mounted, err := m.SetUp(ctx, configured())
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(mounted["config"].Path, "text"))
	return string(text), err
}

func beforeReboot(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(diskDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(diskDir+"/boot-id", []byte(bootID(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := podstore.Open(podstore.Config{Dir: diskDir + "/pod-store"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Replace([]*corev1.Pod{configured()}), store.Contact(time.Now())); err != nil {
		t.Fatal(err)
	}
	if text, err := setUp(t, configMaps{text: "old"}); err != nil || text != "old" {
		t.Fatalf("the pod reads %q: %v", text, err)
	}
	if text, err := setUp(t, configMaps{}); err != nil || text != "old" {
		t.Errorf("while the API server is away the pod reads %q: %v", text, err)
	}
}

func afterReboot(t *testing.T) {
	t.Helper()
	before, err := os.ReadFile(diskDir + "/boot-id")
	if now := bootID(t); err != nil || string(before) == now {
		t.Errorf("the boot ID was %q and is %q (%v), want another one", before, now, err)
	}
	store, err := podstore.Open(podstore.Config{Dir: diskDir + "/pod-store"})
	if err != nil {
		t.Fatal(err)
	}
	recalled := store.Recall()
	if len(recalled.Pods) != 1 || recalled.Pods[0].Name != "web" {
		t.Fatalf("the store recalls %d pods, want the one", len(recalled.Pods))
	}
	if may, why := recalled.MayStart(recalled.Pods[0], time.Now()); !may {
		t.Errorf("the pod may not start: %v", why)
	}
	if text, err := setUp(t, configMaps{}); err == nil || !strings.Contains(err.Error(), errAway.Error()) {
		t.Errorf("the pod reads %q (%v) of the boot before, want an error while the API server is away", text, err)
	}
	if text, err := setUp(t, configMaps{text: "new"}); err != nil || text != "new" {
		t.Errorf("with the API server the pod reads %q: %v", text, err)
	}
}
