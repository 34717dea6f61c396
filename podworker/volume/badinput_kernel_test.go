//go:build linux

package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestKernelMissingObjects: required ones and their keys are told, optional ones leave their
// files out.
func TestKernelMissingObjects(t *testing.T) {
	needsMounts(t)
	items := []corev1.KeyToPath{{Key: "a", Path: "a"}, {Key: "none", Path: "none"}}
	configMapOf := func(name string, optional bool, items ...corev1.KeyToPath) corev1.Volume {
		return source("v", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional, Items: items,
		}})
	}
	secretOf := func(name string, optional bool, items ...corev1.KeyToPath) corev1.Volume {
		return source("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: &optional, Items: items}})
	}
	some := map[string]string{"a": "1", "b": "2"}
	tests := []struct {
		name  string
		v     corev1.Volume
		want  map[string]string
		fails string
	}{
		{name: "config map", v: configMapOf("none", false), fails: `volume "v": configmap "none" not found`},
		{name: "secret", v: secretOf("none", false), fails: `volume "v": secret "none" not found`},
		{name: "optional config map", v: configMapOf("none", true), want: map[string]string{}},
		{name: "optional secret", v: secretOf("none", true, items...), want: map[string]string{}},
		{name: "key of a config map", v: configMapOf("some", false, items...), fails: `configmap references non-existent config key: none`},
		{name: "key of a secret", v: secretOf("some", false, items...), fails: `references non-existent secret key: none`},
		{name: "key of an optional config map", v: configMapOf("some", true, items...), want: map[string]string{"a": "1"}},
		{name: "key of an optional secret", v: secretOf("some", true, items...), want: map[string]string{"a": "1"}},
		{name: "of another namespace", v: configMapOf("elsewhere", false), fails: `configmap "elsewhere" not found`},
	}
	for _, tt := range tests {
		var o objects
		o.setConfigMap("some", some)
		o.setSecret("some", some)
		o.setConfigMap("elsewhere", some)
		o.configMaps["elsewhere"].Namespace = "bank"
		m := newManager(t, volume.Config{Objects: &o})
		if tt.fails != "" {
			contains(t, attempt(t, m, pod("1", tt.v)), tt.fails)
			continue
		}
		if diff := cmp.Diff(tt.want, files(t, setUp(t, m, pod("1", tt.v))["v"])); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
	contains(t, attempt(t, newManager(t, volume.Config{}), pod("1", configMap("v", "some"))), `configmap "some": this agent has no source of it`)
	contains(t, attempt(t, newManager(t, volume.Config{}), pod("1", secret("v", "some"))), `secret "some": this agent has no source of it`)
}

// TestOptionalObjectComesAndGoes: its files come and go with it.
func TestOptionalObjectComesAndGoes(t *testing.T) {
	var o objects
	m := newManager(t, volume.Config{Objects: &o})
	run(t, m)
	v := configMap("v", "conf")
	v.ConfigMap.Optional = new(true)
	dir := setUp(t, m, pod("1", v))["v"]
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("files are %v, want none", got)
	}
	o.setConfigMap("conf", map[string]string{"a": "1"})
	m.Changed(conf())
	eventually(t, "the file comes", func() bool {
		data, err := os.ReadFile(dir + "/a")
		return err == nil && string(data) == "1"
	})
	o.mu.Lock()
	delete(o.configMaps, "conf")
	o.mu.Unlock()
	m.Changed(conf())
	eventually(t, "the file goes", func() bool { return len(list(t, dir)) == 2 })
}

// TestKernelBadKeys: no key and no path of an item leads out of a volume.
func TestKernelBadKeys(t *testing.T) {
	needsMounts(t)
	tests := []struct{ name, key, path, fails string }{
		{name: "up", key: "..", fails: "must not contain '..'"},
		{name: "up and on", key: "../../evil", fails: "must not contain '..'"},
		{name: "absolute", key: "/etc/evil", fails: "must be relative"},
		{name: "reserved", key: "..data", fails: "must not start with '..'"},
		{name: "empty", key: "", fails: "names no file"},
		{name: "long", key: strings.Repeat("x", 256), fails: "longer than 255 bytes"},
		{name: "path up", key: "a", path: "../evil", fails: "must not contain '..'"},
		{name: "path up in the middle", key: "a", path: "b/../../evil", fails: "must not contain '..'"},
		{name: "path absolute", key: "a", path: "/evil", fails: "must be relative"},
	}
	for _, tt := range tests {
		for _, kind := range []string{"config map", "secret"} {
			var o objects
			o.setConfigMap("o", map[string]string{tt.key: "x"})
			o.setSecret("o", map[string]string{tt.key: "x"})
			v := configMap("v", "o")
			if kind == "secret" {
				v = secret("v", "o")
			}
			if tt.path != "" {
				items := []corev1.KeyToPath{{Key: tt.key, Path: tt.path}}
				if kind == "secret" {
					v.Secret.Items = items
				} else {
					v.ConfigMap.Items = items
				}
			}
			dir := root(t)
			contains(t, attempt(t, newManager(t, volume.Config{Root: dir, Objects: &o}), pod("1", v)), tt.fails)
			_ = filepath.WalkDir(dir, func(at string, _ fs.DirEntry, _ error) error {
				if strings.Contains(at, "evil") {
					t.Errorf("%s of a %s made %s", tt.name, kind, at)
				}
				return nil
			})
		}
	}
}

// TestLargeObjects: what is larger than the API allows is refused, as much as it allows and
// ten thousand keys are not.
func TestLargeObjects(t *testing.T) {
	var o objects
	m := newManager(t, volume.Config{Objects: &o})
	o.setConfigMap("huge", map[string]string{"a": strings.Repeat("x", 1<<20), "b": strings.Repeat("y", 1<<20)})
	contains(t, attempt(t, m, pod("1", configMap("v", "huge"))), "configmap shop/huge holds 2097152 bytes, at most 1048576 are allowed")
	o.setConfigMap("full", map[string]string{"a": strings.Repeat("x", 1<<20)})
	if got := read(t, setUp(t, m, pod("2", configMap("v", "full")))["v"]+"/a"); len(got) != 1<<20 {
		t.Errorf("the file has %d bytes", len(got))
	}
	keys := map[string]string{}
	for i := range 10_000 {
		keys[fmt.Sprint("key-", i)] = fmt.Sprint(i)
	}
	o.setConfigMap("many", keys)
	if diff := cmp.Diff(keys, files(t, setUp(t, m, pod("3", configMap("v", "many")))["v"])); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestKernelFullDisk: an update that does not fit leaves the old content, an emptyDir and
// other pods work on, and the update comes when there is room.
func TestKernelFullDisk(t *testing.T) {
	needsMounts(t)
	dir := root(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	var o objects
	var e events
	o.setConfigMap("conf", map[string]string{"a": "old"})
	m := newManager(t, volume.Config{Root: dir, Objects: &o, OnEvent: e.add})
	run(t, m)
	p := pod("1", configMap("v", "conf"), emptyDir("cache"))
	paths := setUp(t, m, p)
	ballast := paths["cache"] + "/ballast"
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	o.setConfigMap("conf", map[string]string{"a": "new", "b": strings.Repeat("x", 1<<16)})
	m.Changed(conf())
	eventually(t, "the update fails", func() bool { return len(e.all()) > 0 })
	contains(t, errors.New(e.all()[0]), "no space left on device")
	if diff := cmp.Diff(map[string]string{"a": "old"}, files(t, paths["v"])); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if mounted, err := m.SetUp(t.Context(), p); err != nil || mounted["v"].Path != paths["v"] {
		t.Errorf("containers of the pod cannot start: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	m.Changed(conf())
	eventually(t, "the update comes", func() bool { return len(list(t, paths["v"])) == 4 && read(t, paths["v"]+"/a") == "new" })
	if got := list(t, paths["v"]); len(got) != 4 {
		t.Errorf("the failed updates left something: %v", got)
	}
	if err := m.TearDown(t.Context(), "1"); err != nil {
		t.Error(err)
	}
}

// TestKernelSecretTooLargeForTheMemory of the pod.
func TestKernelSecretTooLargeForTheMemory(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setSecret("key", map[string]string{"a": strings.Repeat("x", 1<<19)})
	m := newManager(t, volume.Config{Objects: &o})
	p := pod("1", secret("v", "key"))
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Ki")}
	contains(t, attempt(t, m, p), "no space left on device")
	if err := m.TearDown(t.Context(), "1"); err != nil {
		t.Error(err)
	}
}

// TestKernelContainerPlantsLinks: a container that can write in a volume turns names of it
// into links to the outside. Sub-paths, refreshes and the end of the pod touch nothing there.
func TestKernelContainerPlantsLinks(t *testing.T) {
	needsMounts(t)
	outside := t.TempDir()
	write(t, outside+"/secret", "secret")
	var o objects
	o.setConfigMap("conf", map[string]string{"a": "1"})
	dir := root(t)
	m := newManager(t, volume.Config{Root: dir, Objects: &o})
	run(t, m)
	paths := setUp(t, m, pod("1", emptyDir("cache"), configMap("v", "conf")))
	link(t, outside, paths["cache"]+"/sub")
	target := dir + "/pods/1/volume-subpaths/cache/app/0"
	for _, sub := range []string{"sub", "sub/secret", "sub/new"} {
		err := volume.Mounter{}.Bind(t.Context(), paths["cache"], sub, target, 0)
		contains(t, err, "leads out of the volume")
	}
	// In the volume of the ConfigMap nobody but root can, as through a hostPath.
	for _, name := range []string{"b", "..data_tmp", "..2026_01_01_00_00_00.1"} {
		link(t, outside, filepath.Join(paths["v"], name))
	}
	o.setConfigMap("conf", map[string]string{"a": "2", "b": "2"})
	m.Changed(conf())
	eventually(t, "the update comes", func() bool { return read(t, paths["v"]+"/a") == "2" })
	if err := m.TearDown(t.Context(), "1"); err != nil {
		t.Error(err)
	}
	if got := list(t, outside); len(got) != 1 || read(t, outside+"/secret") != "secret" {
		t.Errorf("outside is %v", got)
	}
}

// TestKernelVolumeThatNeverUnmounts: a container has mounted something in it and uses it.
// Its pod stays, with its data; others do not notice.
func TestKernelVolumeThatNeverUnmounts(t *testing.T) {
	needsMounts(t)
	dir := root(t)
	m := newManager(t, volume.Config{Root: dir})
	ram := source("ram", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}})
	paths := setUp(t, m, pod("1", ram, emptyDir("cache")))
	nested := paths["cache"] + "/nested"
	if err := os.Mkdir(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (volume.Mounter{}).Memory(context.WithoutCancel(t.Context()), nested, 1<<20, 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, nested+"/data", "x")
	write(t, paths["ram"]+"/data", "x")
	users := []*os.File{open(t, nested+"/data"), open(t, paths["ram"]+"/data")}
	for range 3 {
		contains(t, m.TearDown(t.Context(), "1"), "device or resource busy")
		if m.Unmounted("1") || read(t, nested+"/data") != "x" || read(t, paths["ram"]+"/data") != "x" {
			t.Fatal("it counts as unmounted, or what is in use is gone")
		}
	}
	setUp(t, m, pod("2", ram, emptyDir("cache")))
	if err := m.TearDown(t.Context(), "2"); err != nil {
		t.Error(err)
	}
	for _, f := range users {
		_ = f.Close()
	}
	if err := m.TearDown(t.Context(), "1"); err != nil || !m.Unmounted("1") {
		t.Errorf("nobody uses it any more: %v", err)
	}
	if left := mountsBelow(t, dir); len(left) > 0 {
		t.Errorf("%v stay mounted", left)
	}
}

func open(tb testing.TB, path string) *os.File {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return f
}
