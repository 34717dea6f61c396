package eviction_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

func Example() {
	thresholds, err := eviction.Thresholds(eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	tracker := eviction.NewTracker(thresholds, 5*time.Minute)
	low := eviction.Observation{Available: resource.MustParse("91Mi"), Capacity: resource.MustParse("4Gi")}
	verdict := tracker.Observe(time.Now(), eviction.Observations{eviction.MemoryAvailable: low})
	fmt.Println(verdict.Pressures)

	pods := []*corev1.Pod{podOf("cache", 0, "memory=1Gi"), podOf("batch", 0, "memory=100Mi")}
	usages := eviction.Usages{
		"cache": {Memory: 900 << 20},
		"batch": {Memory: 250 << 20, Containers: []eviction.ContainerUsage{{Name: "main", Memory: 250 << 20}}},
	}
	first := eviction.Rank(verdict.Crossed[0].Signal, eviction.OneDisk, pods, usages)[0]
	usage := usages[string(first.UID)]
	message, _ := eviction.Message(verdict.Crossed[0], low, first, &usage)
	fmt.Println(first.Name)
	fmt.Println(message)

	// Output:
	// [MemoryPressure]
	// batch
	// The node was low on resource: memory. Threshold quantity: 100Mi, available: 91Mi. Container main was using 250Mi, request is 100Mi, has larger consumption of memory.
}
