package node

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/devices"
	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// startDesk returns a desk with a plugin of two devices, one of which is unhealthy.
func startDesk(t *testing.T) *deviceDesk {
	t.Helper()
	dir, err := os.MkdirTemp("", "dd") //nolint:usetesting // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listed := make(chan struct{}, 1)
	d := &deviceDesk{}
	d.Manager, err = devices.New(devices.Config{Dir: dir, Changed: func([]types.UID) {
		select {
		case listed <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	for { // until the other goroutine listens, which nothing but a connection shows
		c, err := net.Dial("unix", filepath.Join(dir, "kubelet.sock"))
		if err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(time.Millisecond)
	}
	p, err := devicestest.Start(t.Context(), devicestest.Config{
		Dir: dir, Resource: "example.com/gpu", Devices: []*deviceapi.Device{devicestest.Healthy("0"), devicestest.Unhealthy("1")},
		Answer: func([]string) *deviceapi.ContainerAllocateResponse {
			return &deviceapi.ContainerAllocateResponse{
				Envs:        map[string]string{"B": "2", "A": "1"},
				Mounts:      []*deviceapi.Mount{{ContainerPath: "/lib", HostPath: "/opt/lib", ReadOnly: true}},
				Devices:     []*deviceapi.DeviceSpec{{ContainerPath: "/dev/a", HostPath: "/dev/0", Permissions: "r"}, {ContainerPath: "/dev/b", HostPath: "/dev/1"}},
				Annotations: map[string]string{"note": "x"},
				CdiDevices:  []*deviceapi.CDIDevice{{Name: "example.com/gpu=0"}},
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	for d.Allocatable()["example.com/gpu"] == nil {
		<-listed
	}
	return d
}

func TestDevicesInTheConfigurationOfAContainer(t *testing.T) {
	d := startDesk(t)
	pod := &corev1.Pod{}
	pod.UID = "u"
	pod.Spec.Containers = []corev1.Container{
		{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}, {Name: "plain"},
	}
	if err := d.give(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	got, err := d.extra(t.Context(), pod, &pod.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	want := podspec.Extra{
		Envs:        []*runtimeapi.KeyValue{{Key: "A", Value: []byte("1")}, {Key: "B", Value: []byte("2")}},
		Mounts:      []*runtimeapi.Mount{{ContainerPath: "/lib", HostPath: "/opt/lib", Readonly: true}},
		Devices:     []*runtimeapi.Device{{ContainerPath: "/dev/a", HostPath: "/dev/0", Permissions: "r"}, {ContainerPath: "/dev/b", HostPath: "/dev/1", Permissions: "mrw"}},
		CDIDevices:  []*runtimeapi.CDIDevice{{Name: "example.com/gpu=0"}},
		Annotations: map[string]string{"note": "x"},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("container app is given (-want +got):\n%s", diff)
	}
	if got, err := d.extra(t.Context(), pod, &pod.Spec.Containers[1]); err != nil || !cmp.Equal(podspec.Extra{}, got, protocmp.Transform()) {
		t.Errorf("container plain is given %+v, %v, want nothing", got, err)
	}
}

// TestDevicesInTheStatusOfTheNode are over what the API server has; pods are admitted to a
// node without them.
func TestDevicesInTheStatusOfTheNode(t *testing.T) {
	d := startDesk(t)
	node := &corev1.Node{}
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "example.com/gpu": resource.MustParse("9")}
	node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	d.overlay(&node.Status)
	text := func(list corev1.ResourceList) map[string]string {
		out := map[string]string{}
		for name, q := range list {
			out[string(name)] = q.String()
		}
		return out
	}
	if diff := cmp.Diff(map[string]string{"cpu": "4", "example.com/gpu": "2"}, text(node.Status.Capacity)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "4", "example.com/gpu": "1"}, text(node.Status.Allocatable)); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "4"}, text(d.decides(node).Status.Allocatable)); diff != "" {
		t.Errorf("what pods are admitted to (-want +got):\n%s", diff)
	}
}

// TestNodeWithoutDevices does nothing.
func TestNodeWithoutDevices(t *testing.T) {
	var d *deviceDesk
	node := &corev1.Node{}
	d.overlay(&node.Status)
	d.release("u")
	d.remember(nil)
	extra, err := d.extra(t.Context(), &corev1.Pod{}, &corev1.Container{})
	if d.abilities() != 0 || node.Status.Capacity != nil || err != nil || !cmp.Equal(podspec.Extra{}, extra, protocmp.Transform()) || d.health("u", "c") != nil || d.run(t.Context()) != nil {
		t.Error("a node without devices does something about them")
	}
}
