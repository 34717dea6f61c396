//go:build linux

package cgroups_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

func Example() {
	tree, err := cgroups.New(cgroups.Config{
		Mounts: []cgroups.Mount{{Path: "/sys/fs/cgroup", V2: true, Controllers: []string{"cpu", "memory", "pids"}}},
		Class:  func(pod *corev1.Pod) corev1.PodQOSClass { return pod.Status.QOSClass },
		Rules:  cgroups.Rules{PodPids: 1024},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	list := corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("64Mi")}
	pod := &corev1.Pod{
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}},
		Status: corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed},
	}
	pod.UID = "u1"
	fmt.Println(tree.Parent(pod))
	limits := cgroups.LimitsOf(pod, corev1.PodQOSGuaranteed, cgroups.Rules{PodPids: 1024})
	fmt.Println(limits.CPUShares, limits.CPUQuota, limits.CPUPeriod, limits.Memory, limits.Pids)
	// Then, as root: tree.Setup, tree.EnsurePod before the sandbox, tree.RemovePod after its end.

	// Output:
	// /kubepods/podu1
	// 512 50000 100000 67108864 1024
}
