package csi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/csi"
	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// Example has a driver publish a volume that lives with its pod. On a node the clients
// come from client-go, and drivers register themselves.
func Example() {
	if err := publish(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// pods/4f5c/volumes/kubernetes.io~csi/scratch/mount
	// NodePublishVolume
	// NodeUnpublishVolume
}

func publish(ctx context.Context) error {
	root, err := os.MkdirTemp("", "csi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	driver, err := csitest.Start(csitest.Config{Dir: filepath.Join(root, "driver"), Mounter: &csitest.Table{}})
	if err != nil {
		return err
	}
	defer driver.Stop()
	p, err := csi.New(csi.Config{Node: "node-a", Root: root, API: api(driver.Name())})
	if err != nil {
		return err
	}
	if err := p.Register(ctx, driver.Name(), driver.Endpoint(), driver.Versions()); err != nil {
		return err
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "4f5c"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
			Name:         "scratch",
			VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver.Name()}},
		}}},
	}
	mounted, err := p.SetUp(ctx, pod, &pod.Spec.Volumes[0])
	if err != nil {
		return err
	}
	place, err := filepath.Rel(root, mounted.Path)
	fmt.Println(place)
	if err := p.TearDown(ctx, pod.UID); err != nil {
		return err
	}
	for _, op := range driver.Ops() {
		fmt.Println(op)
	}
	return err
}

// objects are those of one kind, by name.
type objects[T any] map[string]*T

func (o objects[T]) Get(_ context.Context, name string, _ metav1.GetOptions) (*T, error) {
	return o[name], nil
}

// The clients that the example does not come to use.
type (
	claims   struct{ csi.Claims }
	nodes    struct{ csi.Nodes }
	csiNodes struct{ csi.CSINodes }
)

func api(driver string) csi.API {
	return csi.API{
		Claims:      func(string) csi.Claims { return claims{} },
		Volumes:     objects[corev1.PersistentVolume]{},
		Secrets:     func(string) csi.Getter[corev1.Secret] { return objects[corev1.Secret]{} },
		Attachments: objects[storagev1.VolumeAttachment]{},
		Drivers: objects[storagev1.CSIDriver]{driver: {Spec: storagev1.CSIDriverSpec{
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
		}}},
		Nodes:    nodes{},
		CSINodes: csiNodes{},
	}
}
