package pinning_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/pinning"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// A machine has one socket of four cores, two CPUs each. A container asks for two CPUs.
func ExampleCPUs() {
	var all []pinning.CPU
	for id := range 8 {
		all = append(all, pinning.CPU{ID: id, Core: id % 4})
	}
	layout, err := pinning.NewLayout(all)
	if err != nil {
		fmt.Println(err)
		return
	}
	cpus, err := pinning.NewCPUs(pinning.CPUConfig{
		Policy: pinning.Static, Layout: layout, Reserve: 1,
		Class: func(*corev1.Pod) corev1.PodQOSClass { return corev1.PodQOSGuaranteed },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "main", Resources: corev1.ResourceRequirements{Requests: two, Limits: two}},
	}}}
	pod.UID = "2d1c"
	request := topology.Request{Pod: pod, Container: &pod.Spec.Containers[0]}
	if err := cpus.Allocate(context.Background(), request, topology.Hint{}); err != nil {
		fmt.Println(err)
		return
	}
	own, _ := cpus.Of(pod.UID, "main")
	fmt.Println("main has", own, "and all others", cpus.Shared())
	cpus.Release(pod.UID)
	fmt.Println("then all have", cpus.Shared())
	// Output:
	// main has 1,5 and all others 0,2-4,6-7
	// then all have 0-7
}
