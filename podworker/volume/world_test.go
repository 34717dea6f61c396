//go:build linux

package volume_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// objects are ConfigMaps and Secrets by name. The zero value has none.
type objects struct {
	mu         sync.Mutex // guards all
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
	fails      error // for every question, nil: none
	asked      int
}

func (o *objects) ConfigMap(_ context.Context, pod *corev1.Pod, name string) (*corev1.ConfigMap, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	object := o.configMaps[name]
	if o.fails != nil {
		return nil, o.fails
	}
	if object == nil || object.Namespace != pod.Namespace {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return object, nil
}

func (o *objects) Secret(_ context.Context, pod *corev1.Pod, name string) (*corev1.Secret, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	object := o.secrets[name]
	if o.fails != nil {
		return nil, o.fails
	}
	if object == nil || object.Namespace != pod.Namespace {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return object, nil
}

// setConfigMap replaces a ConfigMap of the namespace shop.
func (o *objects) setConfigMap(name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.configMaps == nil {
		o.configMaps = map[string]*corev1.ConfigMap{}
	}
	o.configMaps[name] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: data}
}

// setSecret replaces a Secret of the namespace shop.
func (o *objects) setSecret(name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.secrets == nil {
		o.secrets = map[string]*corev1.Secret{}
	}
	bytes := map[string][]byte{}
	for k, v := range data {
		bytes[k] = []byte(v)
	}
	o.secrets[name] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: bytes}
}

// fail makes every question fail from now on; nil: no more.
func (o *objects) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = err
}

func (o *objects) questions() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// events collects the events of all pods.
type events struct {
	mu   sync.Mutex // guards list
	list []string
}

func (e *events) add(pod *corev1.Pod, event volume.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf("%s: %s %s %s", pod.Name, event.Type, event.Reason, event.Message))
}

func (e *events) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// pod returns a pod of the namespace shop with one container that mounts all volumes, each
// at a directory of its name.
func pod(uid string, volumes ...corev1.Volume) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + uid, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}, Volumes: volumes},
	}
	for _, v := range volumes {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return p
}

func source(name string, s corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: s}
}

func configMap(volumeName, object string) corev1.Volume {
	return source(volumeName, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: object}}})
}

func secret(volumeName, object string) corev1.Volume {
	return source(volumeName, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: object}})
}

func emptyDir(name string) corev1.Volume {
	return source(name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
}

// newManager returns a manager with a root of its own, of which nothing stays mounted.
func newManager(tb testing.TB, cfg volume.Config) *volume.Manager {
	tb.Helper()
	if cfg.Root == "" {
		cfg.Root = root(tb)
	}
	m, err := volume.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// root returns a directory for pods, in which nothing stays mounted.
func root(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	tb.Cleanup(func() {
		if err := (volume.Mounter{}).Unmount(context.WithoutCancel(tb.Context()), dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// run runs a manager until the end of the test.
func run(tb testing.TB, m *volume.Manager) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
}

// setUp sets up the volumes of a pod and returns their paths.
func setUp(tb testing.TB, m *volume.Manager, p *corev1.Pod) map[string]string {
	tb.Helper()
	mounted, err := m.SetUp(tb.Context(), p)
	if err != nil {
		tb.Fatal(err)
	}
	paths := map[string]string{}
	for name := range mounted {
		paths[name] = mounted[name].Path
	}
	return paths
}

// attempt is the error of a SetUp that is not to succeed, once it says why.
func attempt(tb testing.TB, m *volume.Manager, p *corev1.Pod) (err error) {
	tb.Helper()
	eventually(tb, "a volume of "+p.Name+" fails", func() bool {
		ctx, cancel := context.WithTimeout(tb.Context(), 50*time.Millisecond)
		defer cancel()
		var mounted map[string]volume.Mounted
		if mounted, err = m.SetUp(ctx, p); err == nil {
			tb.Fatalf("volumes are %v, want an error", mounted)
		}
		return !strings.HasSuffix(err.Error(), context.DeadlineExceeded.Error())
	})
	return err
}

// files returns the files below a directory that users see, with what is in them.
func files(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	out := map[string]string{}
	for _, e := range list(tb, dir) {
		if strings.HasPrefix(e, "..") {
			continue
		}
		resolved, err := filepath.EvalSymlinks(filepath.Join(dir, e))
		if err != nil {
			tb.Fatal(err)
		}
		err = filepath.WalkDir(resolved, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(at)
			rel, _ := filepath.Rel(resolved, at)
			out[filepath.Join(e, rel)] = string(data)
			return err
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

func list(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	out := make([]string, len(entries))
	for i := range entries {
		out[i] = entries[i].Name()
	}
	return out
}

// eventually waits until a condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-deadline:
			tb.Fatalf("it does not happen: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func contains(tb testing.TB, err error, want string) {
	tb.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		tb.Errorf("error is %v, want one with %q", err, want)
	}
}

// tree returns the directories and files below a directory, relative to it, without those
// that a writer names by the time.
func tree(tb testing.TB, dir string) []string {
	tb.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(dir, func(at string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, at)
		if !strings.Contains(rel, "..2") {
			seen[rel] = true
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return slices.Sorted(maps.Keys(seen))
}
