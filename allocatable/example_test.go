package allocatable_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable"
)

// A node of 4 CPUs and 8 GB explains what it offers.
func ExampleCompute() {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("8141816Ki"),
	}
	threshold, err := allocatable.ParseThreshold("100Mi")
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := allocatable.Compute(capacity, allocatable.Reserved{
		Kube: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("80m"),
			corev1.ResourceMemory: resource.MustParse("748480Ki"),
		},
		MemoryAvailable: threshold,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Allocatable.Cpu(), result.Allocatable.Memory())
	for _, term := range result.Terms {
		fmt.Println(term.Resource, "-", term)
	}
	// Output:
	// 3920m 7290936Ki
	// cpu - kubeReserved 80m
	// memory - kubeReserved 748480Ki
	// memory - evictionHard 100Mi (memory.available 100Mi)
}

// More is reserved than there is: the result is clamped, and the error says what
// was too much.
func ExampleShortageError() {
	result, err := allocatable.Compute(
		corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		allocatable.Reserved{System: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}},
	)
	fmt.Println(result.Allocatable.Memory(), err)
	// Output:
	// 0 memory: the capacity of 1Gi is less than what is kept of it: systemReserved 2Gi; reserve less
}
