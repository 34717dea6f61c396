//go:build linux

package volume_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// owned describes a file: its content, mode, user and group.
type owned struct {
	Data     string
	Mode     fs.FileMode
	UID, GID uint32
}

// describe returns all files of a volume that users see.
func describe(tb testing.TB, dir string) map[string]owned {
	tb.Helper()
	out := map[string]owned{}
	for name, data := range files(tb, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		uid, gid := ids(info)
		out[name] = owned{data, info.Mode(), uid, gid}
	}
	return out
}

func projected(sources ...corev1.VolumeProjection) corev1.Volume {
	return source("all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}})
}

// tokens returns tokens that are good until a time.
type tokens struct {
	token     string
	refreshAt time.Time
	err       error
}

func (t tokens) Token(context.Context, *corev1.Pod, *corev1.ServiceAccountTokenProjection) ([]byte, time.Time, error) {
	return []byte(t.token), t.refreshAt, t.err
}

// TestKernelFileModesAndOwners: default modes, those of items, users, and what a group and
// a token add.
func TestKernelFileModesAndOwners(t *testing.T) {
	needsMounts(t)
	items := []corev1.KeyToPath{
		{Key: "a", Path: "dir/a", Mode: new(int32(0o400))},
		{Key: "b", Path: "b", User: new(int64(7))},
		{Key: "c", Path: "c"},
	}
	keys := map[string]string{"a": "1", "b": "2", "c": "3", "not shown": "4"}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
	tokenOf := func(uid int64) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", User: &uid}}
	}
	runAs := func(uids ...*int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = nil
			for i, uid := range uids {
				c := corev1.Container{SecurityContext: &corev1.SecurityContext{RunAsUser: uid}}
				if i == 0 {
					p.Spec.Containers[0].SecurityContext = c.SecurityContext
				} else {
					p.Spec.InitContainers = append(p.Spec.InitContainers, c)
				}
			}
		}
	}
	group := func(p *corev1.Pod) { withGroup(p, 55) }
	tests := []struct {
		name string
		v    corev1.Volume
		edit func(*corev1.Pod)
		want map[string]owned
	}{
		{"whole secret", secret("v", "s"), nil, map[string]owned{
			"a": {"1", 0o644, 0, 0}, "b": {"2", 0o644, 0, 0}, "c": {"3", 0o644, 0, 0}, "not shown": {"4", 0o644, 0, 0},
		}},
		{"items", source("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: items, DefaultMode: new(int32(0o440)), DefaultUser: new(int64(9))}}), nil, map[string]owned{
			"dir/a": {"1", 0o400, 9, 0}, "b": {"2", 0o440, 7, 0}, "c": {"3", 0o440, 9, 0},
		}},
		{"items for a group", source("v", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Items: items, DefaultMode: new(int32(0o600)),
		}}), group, map[string]owned{
			"dir/a": {"1", 0o440, 0, 55}, "b": {"2", 0o640, 7, 55}, "c": {"3", 0o640, 0, 55},
		}},
		{"token", projected(token), nil, map[string]owned{"token": {"jwt", 0o644, 0, 0}}},
		{"token of the only user", projected(token), runAs(new(int64(5))), map[string]owned{"token": {"jwt", 0o600, 5, 0}}},
		{"token of the user of all", projected(token), runAs(new(int64(5)), new(int64(5))), map[string]owned{"token": {"jwt", 0o600, 5, 0}}},
		{"token of several users", projected(token), runAs(new(int64(5)), new(int64(6))), map[string]owned{"token": {"jwt", 0o644, 0, 0}}},
		{"token of an unknown user", projected(token), runAs(new(int64(5)), nil), map[string]owned{"token": {"jwt", 0o644, 0, 0}}},
		{"token of a named user", projected(tokenOf(8)), runAs(new(int64(5))), map[string]owned{"token": {"jwt", 0o600, 8, 0}}},
		{"token of a group", projected(token), group, map[string]owned{"token": {"jwt", 0o640, 0, 55}}},
		{"token of the user of the pod", projected(token), func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(3)), FSGroup: new(int64(4))}
		}, map[string]owned{"token": {"jwt", 0o640, 3, 4}}},
	}
	for _, tt := range tests {
		var o objects
		o.setSecret("s", keys)
		o.setConfigMap("c", keys)
		m := newManager(t, volume.Config{Objects: &o, Tokens: tokens{token: "jwt"}})
		p := pod("1", tt.v)
		if tt.edit != nil {
			tt.edit(p)
		}
		dir := setUp(t, m, p)[tt.v.Name]
		if diff := cmp.Diff(tt.want, describe(t, dir)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		mode := fs.ModeDir | 0o777
		if tt.v.ConfigMap == nil {
			mode |= fs.ModeSticky // as the kernel makes the root of a tmpfs
		}
		if sc := p.Spec.SecurityContext; sc != nil && sc.FSGroup != nil {
			modeAndGroup(t, dir, mode|fs.ModeSetgid, uint32(*sc.FSGroup))
			modeAndGroup(t, dir+"/..data/.", fs.ModeDir|fs.ModeSetgid|0o755, uint32(*sc.FSGroup))
		} else {
			modeAndGroup(t, dir, mode, 0)
		}
	}
}

// TestKernelProjected puts all sources into one volume; the last of two with one path
// wins.
func TestKernelProjected(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setSecret("s", map[string]string{"s": "secret", "both": "from the secret"})
	o.setConfigMap("c", map[string]string{"c": "config", "both": "from the config map"})
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	refresh := time.Now().Add(time.Hour).Round(0)
	m := newManager(t, volume.Config{Objects: &o, Tokens: tokens{token: "jwt", refreshAt: refresh}, Bundles: bundles{"ca": {certificate("one")}}})
	p := pod("1", projected(
		corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: local("s")}},
		corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("c")}},
		corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: local("none"), Optional: new(true)}},
		corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "pod/name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}},
		corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("ca"), Path: "ca.pem"}},
	))
	mounted, err := m.SetUp(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"s": "secret", "c": "config", "both": "from the config map", "pod/name": "web-1", "token": "jwt", "ca.pem": certificate("one"),
	}
	if diff := cmp.Diff(want, files(t, mounted["all"].Path)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !mounted["all"].RefreshAt.Equal(refresh) {
		t.Errorf("it is refreshed at %v, want %v", mounted["all"].RefreshAt, refresh)
	}
}

// TestKernelProjectedTellsAllFaults of all sources at once, and shows nothing then.
func TestKernelProjectedTellsAllFaults(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setSecret("s", map[string]string{"s": "1"})
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	dir := root(t)
	m := newManager(t, volume.Config{Root: dir, Objects: &o})
	err := attempt(t, m, pod("1", projected(
		corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: local("s")}},
		corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: local("gone")}},
		corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("c")}},
		corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "ca.pem"}},
		corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}},
	)))
	for _, want := range []string{
		`secret "gone" not found`, `configmap "c" not found`, "token of the service account: this agent has no source of it",
		"requires either name or signerName", "a source of this type is not supported",
	} {
		contains(t, err, want)
	}
	if got := mountsBelow(t, dir); len(got) > 0 {
		t.Errorf("%v is mounted for it", got)
	}
}

// TestKernelNestedMounts: a volume that others are mounted into has directories for them.
func TestKernelNestedMounts(t *testing.T) {
	needsMounts(t)
	var o objects
	o.setSecret("s", map[string]string{"a": "1", "sub": "hidden by the mount"})
	m := newManager(t, volume.Config{Objects: &o})
	p := pod("1", secret("v", "s"), emptyDir("x"))
	mounts := map[string]string{"/etc/v": "v", "/etc/v/sub": "x", "/etc/v/sub/below": "x", "/etc/v/deep/er": "x", "/etc/v2": "x", "relative": "x", "/etc/v/../w": "x"}
	p.Spec.Containers[0].VolumeMounts = nil
	for _, path := range slices.Sorted(maps.Keys(mounts)) {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: mounts[path], MountPath: path})
	}
	dir := setUp(t, m, p)["v"]
	if diff := cmp.Diff([]string{".", "..data", "a", "deep", "deep/er", "sub"}, tree(t, dir)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	modeAndGroup(t, dir+"/sub", fs.ModeDir|0o755, 0)
	if read(t, dir+"/a") != "1" {
		t.Error("the other file is not there")
	}
}
