package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	resourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
)

// testDevice is the resource of the plugin of these tests.
const testDevice = "nodekit.test/device"

// newDevicePod returns a pod that asks for so many devices.
func newDevicePod(name string, count int64, args ...string) *corev1.Pod {
	pod := newPod(name, args...)
	list := corev1.ResourceList{testDevice: *resource.NewQuantity(count, resource.DecimalSI)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	return pod
}

// startPlugin starts a plugin with the devices a and b once the kubelet takes some. A
// container sees them in a variable, a mounted file and a device file.
func (a *agent) startPlugin() *devicestest.Plugin {
	a.t.Helper()
	library := a.Dir("host", "library")
	if err := os.MkdirAll(library, 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(library, "driver"), []byte("version 7"), 0o644); err != nil {
		a.t.Fatal(err)
	}
	cfg := devicestest.Config{
		Dir: filepath.Join(a.KubeletRoot(), "device-plugins"), Resource: testDevice, PreStart: true,
		Devices: []*deviceapi.Device{devicestest.Healthy("a", 0), devicestest.Healthy("b")},
		Answer: func(ids []string) *deviceapi.ContainerAllocateResponse {
			return &deviceapi.ContainerAllocateResponse{
				Envs:        map[string]string{"TEST_DEVICES": strings.Join(ids, ",")},
				Mounts:      []*deviceapi.Mount{{ContainerPath: "/library", HostPath: library, ReadOnly: true}},
				Devices:     []*deviceapi.DeviceSpec{{ContainerPath: "/dev/nodekit", HostPath: "/dev/null", Permissions: "rw"}},
				Annotations: map[string]string{"nodekit.test/devices": strings.Join(ids, ",")},
			}
		},
	}
	var p *devicestest.Plugin
	a.eventually("the kubelet takes a device plugin", func(ctx context.Context) error {
		if _, err := os.Lstat(filepath.Join(cfg.Dir, "kubelet.sock")); err != nil {
			return err
		}
		var err error
		p, err = devicestest.Start(ctx, cfg)
		return err
	})
	a.t.Cleanup(p.Stop)
	return p
}

// assigned asks the kubelet which containers have which devices, "pod" for "a,b".
func (a *agent) assigned(ctx context.Context) (map[string]string, error) {
	socket := filepath.Join(a.KubeletRoot(), "pod-resources", "kubelet.sock")
	conn, err := grpc.NewClient("passthrough:///kubelet", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	list, err := resourcesapi.NewPodResourcesListerClient(conn).List(ctx, &resourcesapi.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, pod := range list.GetPodResources() {
		var ids []string
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDevices() {
				ids = append(ids, d.GetDeviceIds()...)
			}
		}
		out[pod.GetName()] = strings.Join(ids, ",")
	}
	return out, nil
}

// wantAssigned waits until the containers of the pods have these devices.
func (a *agent) wantAssigned(want map[string]string) {
	a.t.Helper()
	a.eventually("the kubelet tells who has which devices", func(ctx context.Context) error {
		got, err := a.assigned(ctx)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("-want +got:\n%s", diff)
		}
		return err
	})
}

// wantHealth waits until the status of a pod says how its device is.
func (a *agent) wantHealth(name, id string, want corev1.ResourceHealthStatus) {
	a.t.Helper()
	a.waitPod(name, fmt.Sprintf("says that device %s is %s", id, want), func(pod *corev1.Pod) bool {
		list := pod.Status.ContainerStatuses[0].AllocatedResourcesStatus
		return len(list) == 1 && list[0].Name == testDevice && len(list[0].Resources) == 1 &&
			list[0].Resources[0] == corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: want}
	})
}

// TestContainerSeesItsDevices has a pod wait for its plugin, get what that answers, and
// tell when its device becomes unhealthy.
func TestContainerSeesItsDevices(t *testing.T) {
	a := startAgent(t)
	a.runPod(newDevicePod("device", 1, "-print-env", "-read", "/library/driver"))
	a.waitPod("device", "waits for the plugin", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodPending && pod.Status.Reason == "UnexpectedAdmissionError"
	})
	plugin := a.startPlugin()
	pod := a.waitReady("device")
	a.eventually("the container sees its variable and its mount", func(context.Context) error {
		log, err := a.readLog(pod, 0)
		if err == nil && (!slices.Contains(log, "env TEST_DEVICES=a") || !slices.Contains(log, "read version 7")) {
			err = fmt.Errorf("it printed %q", log)
		}
		return err
	})
	file, err := a.exec(t.Context(), a.containerID("device", "main"), "/life", "list", "/dev/nodekit")
	if err != nil || !strings.HasPrefix(file, "Dcrw-rw-rw- 0 0 /dev/nodekit") {
		t.Errorf("the device is %q, %v, want a character device", file, err)
	}
	if calls := plugin.Calls("PreStartContainer"); len(calls) != 1 || !slices.Equal(calls[0].IDs, []string{"a"}) {
		t.Errorf("before the start the plugin was asked %v, want once for a", calls)
	}
	a.wantAssigned(map[string]string{podName("device"): "a"})
	a.wantHealth("device", "a", corev1.ResourceHealthStatusHealthy)
	plugin.List(devicestest.Unhealthy("a"), devicestest.Healthy("b"))
	a.wantHealth("device", "a", corev1.ResourceHealthStatusUnhealthy)
	plugin.Kill()
	a.wantHealth("device", "a", corev1.ResourceHealthStatusUnknown)
	a.startPlugin()
	a.wantHealth("device", "a", corev1.ResourceHealthStatusHealthy)
}

// TestDevicesOverDeathsOfTheKubelet kills the kubelet and the plugin: the container goes on
// with its device, nobody else gets it, and it is free when its pod has ended.
func TestDevicesOverDeathsOfTheKubelet(t *testing.T) {
	a := startAgent(t)
	plugin := a.startPlugin()
	a.runPod(newDevicePod("first", 1))
	a.waitReady("first")
	before := a.instances()[podName("first")]
	for _, wait := range []func(){
		func() { a.wantHealth("first", "a", corev1.ResourceHealthStatusUnknown) }, // the plugin is not back
		func() { plugin = a.startPlugin(); a.wantHealth("first", "a", corev1.ResourceHealthStatusHealthy) },
	} {
		if err := a.kubelet.Kill(); err != nil {
			t.Fatal(err)
		}
		plugin.Kill()
		a.start()
		wait()
		a.waitReady("first")
		if diff := cmp.Diff(before, a.instances()[podName("first")]); diff != "" {
			t.Errorf("the container (-before +after):\n%s", diff)
		}
	}
	a.runPod(newDevicePod("second", 1))
	a.waitReady("second")
	a.runPod(newDevicePod("third", 1))
	a.waitPod("third", "waits for a device", func(pod *corev1.Pod) bool {
		return strings.Contains(pod.Status.Message, "Requested: 1, Available: 0")
	})
	a.removePod("first")
	a.waitReady("third")
	a.wantAssigned(map[string]string{podName("second"): "b", podName("third"): "a"})
	if n := len(plugin.Calls("Allocate")); n != 2 {
		t.Errorf("the plugin was asked %d times, want once for each of the new pods", n)
	}
	if err := a.kubelet.Terminate(patience); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(a.KubeletRoot(), "pod-resources", "kubelet.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end the socket is %v, want it gone", err)
	}
	a.start()
}
