package podstore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/podstore"
)

// rot is a sealer for tests: it hides bytes and remembers the name.
type rot struct{ err error }

func (r rot) Seal(_ context.Context, name string, plain []byte) ([]byte, error) {
	return append([]byte(name+"\n"), turned(plain)...), r.err
}

func (r rot) Open(_ context.Context, name string, sealed []byte) ([]byte, error) {
	head, rest, _ := bytes.Cut(sealed, []byte("\n"))
	if string(head) != name {
		return nil, errors.New("sealed under another name")
	}
	return turned(rest), r.err
}

func turned(in []byte) []byte {
	out := make([]byte, len(in))
	for i, b := range in {
		out[i] = b ^ 0xa5
	}
	return out
}

// user returns a pod that refers to an object of each kind in each way.
func user() *corev1.Pod {
	pod := newPod("user")
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{ref("pull")}
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("env-from")}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("env-from")}},
	}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Env: []corev1.EnvVar{
		{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("env")}}},
		{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("env")}}},
		{Name: "C", Value: "plain"},
	}}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("volume")}}},
		{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
		{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("projected")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: ref("projected")}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}},
	}
	return pod
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string]string{"key": "value of " + name}, BinaryData: map[string][]byte{"bytes": {0, 1}},
	}
}

func secretNamed(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("hunter2")},
	}
}

// TestObjectsComeBack, those that pods refer to, and no Secret is on the disk in the
// clear.
func TestObjectsComeBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, podstore.Config{Dir: dir, Sealer: rot{}})
	for _, name := range []string{"env-from", "env", "volume", "projected"} {
		if err := errors.Join(s.KeepConfigMap(configMap(name)), s.KeepSecret(t.Context(), secretNamed(name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.KeepSecret(t.Context(), secretNamed("pull")), s.Replace([]*corev1.Pod{user()})); err != nil {
		t.Fatal(err)
	}
	s = open(t, podstore.Config{Dir: dir, Sealer: rot{}})
	for _, name := range []string{"env-from", "env", "volume", "projected"} {
		got, err := s.ConfigMap("default", name)
		if diff := cmp.Diff(configMap(name), got); err != nil || diff != "" {
			t.Errorf("ConfigMap %s: %v (-want +got):\n%s", name, err, diff)
		}
		sec, err := s.Secret(t.Context(), "default", name)
		if diff := cmp.Diff(secretNamed(name), sec); err != nil || diff != "" {
			t.Errorf("Secret %s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := s.ConfigMap("default", "no"); !errors.Is(err, podstore.ErrNotKept) {
		t.Errorf("error %v for an object that is not there", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 10 {
		t.Fatalf("%d files, %v, want 10", len(entries), err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || bytes.Contains(data, []byte("hunter2")) || bytes.Contains(data, []byte("aHVudGVyM")) {
			t.Errorf("%s: %v, or a password in the clear", e.Name(), err)
		}
	}
}

// TestObjectsGoWithTheirPods, but not at once: what was read for a pod of which the set
// does not tell yet stays.
func TestObjectsGoWithTheirPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, podstore.Config{Dir: t.TempDir(), Sealer: rot{}})
		if err := errors.Join(s.KeepConfigMap(configMap("env")), s.KeepConfigMap(configMap("other")), s.KeepSecret(t.Context(), secretNamed("other"))); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait   time.Duration
			set    []*corev1.Pod
			remain []string
		}{
			{0, nil, []string{"env", "other"}},
			{time.Hour, []*corev1.Pod{user()}, []string{"env"}},
			{0, nil, nil},
		} {
			<-time.After(step.wait)
			if err := s.Replace(step.set); err != nil {
				t.Fatal(err)
			}
			var remain []string
			for _, name := range []string{"env", "other"} {
				if _, err := s.ConfigMap("default", name); err == nil {
					remain = append(remain, name)
				}
			}
			if diff := cmp.Diff(step.remain, remain); diff != "" {
				t.Errorf("ConfigMaps (-want +got):\n%s", diff)
			}
		}
		if _, err := s.Secret(t.Context(), "default", "other"); !errors.Is(err, podstore.ErrNotKept) {
			t.Errorf("error %v, want the Secret gone", err)
		}
	})
}

// TestSecretsNeedASealer: without one none is written, and tokens never are.
func TestSecretsNeedASealer(t *testing.T) {
	dir := t.TempDir()
	s := open(t, podstore.Config{Dir: dir})
	if err := s.KeepSecret(t.Context(), secretNamed("env")); !errors.Is(err, podstore.ErrNoSealer) {
		t.Errorf("error %v, want ErrNoSealer", err)
	}
	if _, err := s.Secret(t.Context(), "default", "env"); !errors.Is(err, podstore.ErrNoSealer) {
		t.Errorf("error %v, want ErrNoSealer", err)
	}
	s = open(t, podstore.Config{Dir: dir, Sealer: rot{}})
	for _, kind := range []corev1.SecretType{corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken} {
		token := secretNamed("token")
		token.Type = kind
		if err := s.KeepSecret(t.Context(), token); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files %v, %v, want none", entries, err)
	}
}

// TestSealerThatFails: the Secret is not kept, or not had, and nothing else is lost.
func TestSealerThatFails(t *testing.T) {
	dir := t.TempDir()
	gone := errors.New("the TPM does not answer")
	s := open(t, podstore.Config{Dir: dir, Sealer: rot{gone}})
	if err := s.KeepSecret(t.Context(), secretNamed("env")); !errors.Is(err, gone) {
		t.Errorf("error %v, want that of the TPM", err)
	}
	s = open(t, podstore.Config{Dir: dir, Sealer: rot{}})
	if err := errors.Join(s.KeepSecret(t.Context(), secretNamed("env")), s.Replace([]*corev1.Pod{user()})); err != nil {
		t.Fatal(err)
	}
	s = open(t, podstore.Config{Dir: dir, Sealer: rot{gone}})
	if _, err := s.Secret(t.Context(), "default", "env"); !errors.Is(err, gone) {
		t.Errorf("error %v, want that of the TPM", err)
	}
	if got := names(s.Recall().Pods); len(got) != 1 {
		t.Errorf("pods %q, want the one", got)
	}
}

// TestSealIsNotMadeAnew for a Secret that is the same, and is for one that has changed.
func TestSealIsNotMadeAnew(t *testing.T) {
	writes := 0
	s, err := podstore.OpenWithStep(podstore.Config{Dir: t.TempDir(), Sealer: rot{}}, func(string) error { writes++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		password string
		written  bool
	}{{"a", true}, {"a", false}, {"b", true}} {
		writes = 0
		sec := secretNamed("env")
		sec.Data["password"] = []byte(tt.password)
		if err := s.KeepSecret(t.Context(), sec); err != nil {
			t.Fatal(err)
		}
		if got := writes > 0; got != tt.written {
			t.Errorf("password %s: written %t, want %t", tt.password, got, tt.written)
		}
	}
}
