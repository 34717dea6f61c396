package devices_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/devices"
	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

func Example() {
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the node has 2 of example.com/gpu
	// app has GPU 0
}

// run starts a Manager, a plugin with two devices and a pod that asks for one.
func run() error {
	dir, err := os.MkdirTemp("", "dp") // the path of a socket is short
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	changed := make(chan struct{}, 1)
	wake := func([]types.UID) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}

	manager, err := devices.New(devices.Config{Dir: dir, Changed: wake})
	if err != nil {
		return err
	}
	running.Go(func() {
		if err := manager.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})
	plugin, err := startPlugin(ctx, dir)
	if err != nil {
		return err
	}
	defer plugin.Stop()
	for manager.Allocatable()["example.com/gpu"] == nil {
		<-changed
	}
	_, allocatable := manager.Resources()
	n := allocatable["example.com/gpu"]
	fmt.Printf("the node has %s of example.com/gpu\n", n.String())

	pod := &corev1.Pod{}
	pod.UID = "pod-1"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")},
	}}}
	places, err := topology.New(topology.Config{Providers: []topology.Provider{manager}})
	if err != nil {
		return err
	}
	if err := places.Admit(ctx, pod); err != nil { // who has what
		return err
	}
	if err := manager.Prepare(ctx, pod); err != nil { // how they get at it
		return err
	}
	extra, err := manager.Container(ctx, pod, &pod.Spec.Containers[0])
	if err != nil {
		return err
	}
	fmt.Printf("app has GPU %s\n", extra.GetEnvs()["DEVICES"])
	places.Release(pod.UID)
	return nil
}

// startPlugin starts a plugin once there is somebody to register with.
func startPlugin(ctx context.Context, dir string) (*devicestest.Plugin, error) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !listens(filepath.Join(dir, "kubelet.sock")) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
		}
	}
	return devicestest.Start(ctx, devicestest.Config{
		Dir: dir, Resource: "example.com/gpu",
		Devices: []*deviceapi.Device{devicestest.Healthy("0"), devicestest.Healthy("1")},
	})
}
