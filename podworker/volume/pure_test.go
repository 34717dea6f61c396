//go:build linux

package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestReferences(t *testing.T) {
	name := "ca"
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "z"}}},
		{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("b")}}},
		{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("b")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("a")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: local("z")}},
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &name}},
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
		}}}},
	}}}
	want := []Object{
		{ConfigMaps, "shop", "a"}, {ConfigMaps, "shop", "b"}, {Secrets, "shop", "z"}, {TrustBundles, "", ""}, {TrustBundles, "", "ca"},
	}
	if diff := cmp.Diff(want, References(pod)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestShows: which volumes are set up again when an object changes.
func TestShows(t *testing.T) {
	name := "ca"
	bundle := func(name *string) *corev1.Volume {
		return &corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: name}},
		}}}}
	}
	secret := &corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}}
	tests := []struct {
		name    string
		v       *corev1.Volume
		changed Object
		want    bool
	}{
		{"the secret", secret, Object{Secrets, "shop", "key"}, true},
		{"another secret", secret, Object{Secrets, "shop", "other"}, false},
		{"a secret of that name elsewhere", secret, Object{Secrets, "bank", "key"}, false},
		{"a config map of that name", secret, Object{ConfigMaps, "shop", "key"}, false},
		{"the bundle", bundle(&name), Object{TrustBundles, "", "ca"}, true},
		{"another bundle", bundle(&name), Object{TrustBundles, "", "other"}, false},
		{"any bundle", bundle(&name), Object{TrustBundles, "", ""}, true},
		{"a bundle that may be selected", bundle(nil), Object{TrustBundles, "", "other"}, true},
	}
	for _, tt := range tests {
		s := &state{volume: tt.v, changed: make(chan struct{})}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
		m := Manager{wake: make(chan struct{}, 1), pods: map[types.UID]*record{"1": {pod: pod, volumes: map[string]*state{"v": s}}}}
		if m.Changed(tt.changed); s.touched != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, s.touched, tt.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	var got []time.Duration
	for fails := 1; fails < 11; fails++ {
		got = append(got, backoff(fails))
	}
	want := []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		32 * time.Second, 64 * time.Second, 122 * time.Second, 122 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestProgressOfAGroup: told when it is time, then a minute later.
func TestProgressOfAGroup(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base, err := openBase(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	var told []int
	own := Ownership{Group: int64(os.Getgid()), Progress: func(files int) { told = append(told, files) }}
	g := giver{want: own, report: time.Now().Add(-time.Second)}
	if err := g.all(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	if next := time.Until(g.report); !slices.Equal(told, []int{1}) || g.done != 4 || next > time.Minute {
		t.Errorf("told %v of %d files, next in %s, want once of 4 and then within a minute", told, g.done, next)
	}
}

// TestOrderOfTrustAnchors is the same while a process lives, and another one in the next.
func TestOrderOfTrustAnchors(t *testing.T) {
	var text strings.Builder
	for i := range byte(32) {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: []byte{i}})
	}
	order := func(seed byte) []byte {
		out, err := trustAnchors([]string{text.String()}, [sha256.Size]byte{seed})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if !bytes.Equal(order(1), order(1)) {
		t.Error("one seed gives two orders")
	}
	if bytes.Equal(order(1), order(2)) || string(order(1)) == text.String() {
		t.Error("the order does not depend on the seed")
	}
}

// FuzzTrustAnchors: what comes out is certificates, each once, and comes out again if put
// in.
func FuzzTrustAnchors(f *testing.F) {
	one := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("1")}))
	f.Add(one, one)
	f.Add("# text\n"+one, "")
	f.Add("-----BEGIN CERTIFICATE-----\n", "-----BEGIN X-----\nA: b\n\nMQ==\n-----END X-----\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		out, err := trustAnchors([]string{a, b}, [sha256.Size]byte{})
		if err != nil {
			return
		}
		var seen []string
		for rest := out; len(rest) > 0; {
			block, after := pem.Decode(rest)
			if block == nil || block.Type != "CERTIFICATE" || len(block.Headers) > 0 || slices.Contains(seen, string(block.Bytes)) {
				t.Fatalf("%q and %q became\n%s", a, b, out)
			}
			seen, rest = append(seen, string(block.Bytes)), after
		}
		if again, err := trustAnchors([]string{string(out)}, [sha256.Size]byte{}); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q (%v)", out, again, err)
		}
	})
}
