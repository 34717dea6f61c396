//go:build linux

package volume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// settings has one ConfigMap, whatever it is asked for.
type settings struct{ data map[string]string }

func (s *settings) ConfigMap(context.Context, *corev1.Pod, string) (*corev1.ConfigMap, error) {
	return &corev1.ConfigMap{Data: s.data}, nil
}

func (s *settings) Secret(context.Context, *corev1.Pod, string) (*corev1.Secret, error) {
	return &corev1.Secret{}, nil
}

func Example() {
	root, err := os.MkdirTemp("", "node")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "4711"},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "app", VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/app"}},
			}},
		},
	}
	ctx := context.Background()

	objects := &settings{data: map[string]string{"level": "info"}}
	m, err := volume.New(volume.Config{Root: root, Objects: objects})
	if err != nil {
		fmt.Println(err)
		return
	}
	mounted, err := m.SetUp(ctx, pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	level, err := os.ReadFile(filepath.Join(mounted["conf"].Path, "level"))
	fmt.Println(string(level), err)

	err = m.TearDown(ctx, pod.UID)
	fmt.Println(m.Unmounted(pod.UID), err)
	// Output:
	// info <nil>
	// true <nil>
}
