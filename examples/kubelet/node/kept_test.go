package node_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

func (c coreClient) ConfigMaps(string) corev1client.ConfigMapInterface {
	return configMapClient{s: c.s}
}

func (c coreClient) Secrets(string) corev1client.SecretInterface { return secretClient{s: c.s} }

// configMapClient and secretClient have one object each, which never changes.
type configMapClient struct {
	corev1client.ConfigMapInterface
	s *apiServer
}

func (c configMapClient) List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.ConfigMap{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"key": "of the map"},
	}}}, c.s.upLocked()
}

func (c configMapClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.s.watch(ctx, opts, func(watch.Event) bool { return false })
}

type secretClient struct {
	corev1client.SecretInterface
	s *apiServer
}

func (c secretClient) List(context.Context, metav1.ListOptions) (*corev1.SecretList, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "password"}, Data: map[string][]byte{"key": []byte("of the Secret")},
	}}}, c.s.upLocked()
}

func (c secretClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.s.watch(ctx, opts, func(watch.Event) bool { return false })
}

// reversed is a seal for tests.
type reversed struct{}

func (reversed) Seal(_ context.Context, _ string, plain []byte) ([]byte, error) {
	out := bytes.Clone(plain)
	slices.Reverse(out)
	return out, nil
}

func (r reversed) Open(ctx context.Context, name string, sealed []byte) ([]byte, error) {
	return r.Seal(ctx, name, sealed)
}

// TestObjectsAfterARebootWithoutTheAPIServer: variables from ConfigMaps are there again,
// those from Secrets if there is a seal.
func TestObjectsAfterARebootWithoutTheAPIServer(t *testing.T) {
	for name, store := range map[string]*node.PodStore{"sealed": {Sealer: reversed{}}, "without a seal": {}} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				s := newAPIServer()
				plain, secret := apiPod("plain"), apiPod("secret")
				ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
				plain.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
					ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("settings"), Key: "key"},
				}}}
				secret.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "B", ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("password"), Key: "key"},
				}}}
				s.bind(plain, secret)
				edit := func(c *node.Config) { c.PodStore = store }
				k := m.start(t, s.inCluster, edit)
				pass(30 * time.Second)
				m.wantRunning("plain", "secret")
				m.reboot(k)
				s.setDown(true)
				m.start(t, s.inCluster, edit)
				pass(time.Minute)
				if store.Sealer == nil {
					m.wantRunning("plain")
				} else {
					m.wantRunning("plain", "secret")
				}
				checkNoSecret(t, filepath.Join(m.root, "pod-store"))
				s.setDown(false)
				pass(2 * time.Minute)
				m.wantRunning("plain", "secret")
			})
		})
	}
}

// checkNoSecret wants no Secret in the clear.
func checkNoSecret(t *testing.T, dir string) {
	t.Helper()
	for _, name := range namesIn(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "of the Secret") || strings.Contains(string(data), "b2YgdGhlIFNlY3JldA") {
			t.Errorf("%s has a Secret in the clear", name)
		}
	}
}
